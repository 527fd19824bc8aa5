// Package tarantool is the gateway for Tarantool's binary protocol (IPROTO): it seals fields of
// tuples on their way to the server by the rules, and opens whatever envelope comes back, so
// that a Community edition keeps compressed fields without a change to any application.
//
// Read it in this order. The way of a request and its reply:
//
//	gateway.go      what a gateway is made of, and the seam: Serve and Shutdown
//	session.go      one client: handleRequest carries a request from the client to the server
//	rewrite.go      what goes there in its place: which values are sealed, by which version of the schema
//	vault.go        a value sealed or opened
//	replies.go      handleReply carries a reply from the server to the client, opened within the budget
//	commands.go     the table: what is done with each type of request; features that are negotiated
//	frames.go       frames cut out of a connection, and gathered for one
//	outstanding.go  requests that wait for replies, and what the client sent if they may have to be sent again
//	lanes.go        the order of a stream's requests: which wait when one has to be sent again
//
// What is rarer branches off there:
//
//	retry.go        requests that met another schema, or take several steps, are sent again
//	splice.go       requests that need what is stored are carried out in steps
//	operate.go      operations made to fit a tuple that is stored; splices, as one server or another takes them
//	operations.go   what UPDATE and UPSERT do to fields, and which fields they name
//	calls.go        arguments of functions that are compressed; operations in them, which may not cut what is compressed
//	sql.go          statements that may go to spaces with sealed fields
//	replication.go  connections for replication pass unchanged
//	drain.go        a session's end, when the gateway shuts down
//	login.go        as whom the client has logged in, and what one may do that has not
//
// What they know:
//
//	catalog.go      the schema as the server describes it, and when it is read again
//	spaces.go       rules and schema together: what happens to which field of which space
//	trace.go        spans of requests that are traced
//	errors.go       what errors are called, and replies of the gateway's own
//	config.go       what a gateway is told
//
// A session is made and tested without a server too (parts_test.go).
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
//	client -> handleRequest: its lane, rewrite: sealed, unchanged or refused -> server
//	              |    outstanding: by sync    |
//	client <- handleReply: open the envelopes, wherever they are <------------ server
package tarantool
