// Package tarantool is the gateway for Tarantool's binary protocol (IPROTO): it seals fields of
// tuples on their way to the server by the rules, and opens whatever envelope comes back, so
// that a Community edition keeps compressed fields without a change to any application.
//
// Read it in this order, from high to low. A client:
//
//	gateway.go      what a gateway is made of, and the seam: Serve and Shutdown; config.go what it is told
//	session.go      one client: two pumps, and how each request is handled
//	drain.go        its end, when the gateway shuts down
//	replies.go      the server's replies, carried to the client
//	retry.go        requests that met another schema, or take several steps, are sent again
//	splice.go       requests that need what is stored are carried out in steps
//	pipe.go         replication, which passes as it is
//	conversation.go what is said to the server, and what of ours to the client
//
// Its requests:
//
//	commands.go     the table: what is done with each type of request
//	rewrite.go      which values of a request are sealed, and by which version of the schema
//	blind.go        operations where the gateway's user can't see what touches fields
//	operate.go      operations made to fit a tuple that is stored
//	cut.go          splices, as one server or another takes them
//	operations.go   what UPDATE and UPSERT do to fields
//	collect.go      values of tuples that are to be sealed
//	target.go       which field an operation names
//	arguments.go    arguments of stored functions that are compressed
//	calls.go        operations in arguments of functions, which may not cut what is compressed
//	sql.go          statements that may go to spaces with sealed fields
//	request.go      one request, and its values in their places
//
// Its replies:
//
//	steps.go        answers to steps
//	open.go         envelopes in a reply, opened within the budget
//	features.go     what is negotiated on newer servers
//
// What they know:
//
//	catalog.go      the schema as the server describes it, and when it is read again
//	spaces.go       rules and schema together: what happens to which field of which space
//	vault.go        a value sealed
//	login.go        as whom the client has logged in
//	door.go         what a client may do that has not
//	order.go        which requests wait when one has to be sent again
//	outstanding.go  requests that wait for replies
//	lanes.go        the order of a stream's requests
//	originals.go    what the client sent, for requests that may have to be sent again
//	exchanges.go    what is known of a request that waits, by its sync
//	trace.go        spans of those that are traced
//
// And below all:
//
//	refusals.go     answers of ours in place of the server's
//	reader.go       frames out of a connection, within the budget
//	sink.go         frames into a connection, gathered
//
// The session only puts these together; they are made and tested without it, and without a server
// (parts_test.go).
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
// key touches are never sealed. Requests that would compute on other fields are carried out in steps
// (splices), or refused in the server's own words for what it does not support (SQL).
//
//	client -> pumpRequests -> table -> spaces: seal, refuse or pass -> upstream
//	              |    outstanding: by sync    |
//	client <- replyPump    <- open envelopes wherever they are     <- upstream
package tarantool
