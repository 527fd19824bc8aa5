// Package tarantool is the gateway for Tarantool's binary protocol (IPROTO): it seals fields of
// tuples on their way to the server by the rules, and opens whatever envelope comes back, so
// that a Community edition keeps compressed fields without a change to any application.
//
// Read it in this order:
//
//	gateway.go   what a gateway is made of, and the seam: Serve and Shutdown
//	session.go   one client: two connections, two pumps that never wait for each other
//	reader.go    frames out of a connection, within the budget
//	sink.go      frames into a connection, gathered
//	commands.go  the table: what is done with each type of request
//	catalog.go   the schema as the server describes it, and when it is read again
//	plan.go      rules and schema together: what happens to which field of which space
//	request.go   one request on its way to the server
//	login.go     as whom the client has logged in
//	rewrite.go   values of a request sealed
//	update.go    operations of UPDATE and UPSERT
//	arguments.go arguments of stored functions
//	sql.go       statements that may go to spaces with sealed fields
//	lanes.go     the order of a stream's requests, when one has to be sent again
//	retry.go     requests that met another schema are sent again
//	splice.go    requests that need what is stored are carried out in steps
//	blind.go     such requests, where the gateway's user can't see what touches fields
//	operate.go   their operations made to fit a tuple
//	cut.go       splices, as one server or another takes them
//	pending.go   requests that wait for replies, by sync
//	replies.go   replies opened
//	features.go  what is negotiated on newer servers
//	pipe.go      replication, which passes as it is
//
// # The fence
//
// A rewritten request names the version of the schema by which it was rewritten. When the
// schema has changed the server refuses it (error 109), the schema is read again and the
// request is rewritten from what the client sent. So no value is sealed for a field that
// has got an index in the meantime.
//
// # Sealed bytes and the server
//
// The server must not compute on sealed bytes. Fields that an index, a constraint or a foreign
// key touches are never sealed. Requests that would compute on other fields (splices, SQL) are
// refused, in the server's own words for what it does not support.
//
//	client -> pumpRequests -> table -> plan: seal, refuse or pass -> upstream
//	              |    pending: by sync    |
//	client <- pumpReplies  <- open envelopes wherever they are  <- upstream
package tarantool
