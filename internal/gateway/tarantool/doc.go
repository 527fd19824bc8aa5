// Package tarantool implements the gateway for Tarantool's binary protocol (IPROTO). It compresses fields of
// tuples on their way to the server by the rules of the policy, and decompresses every envelope in replies.
// So a server of the Community edition stores compressed fields without a change to any application.
//
// Read the files in this order. The path of a request and its reply:
//
//	gateway.go      the gateway: NewGateway, Serve and Shutdown
//	session.go      one client: handleRequest carries a request from the client to the server
//	rewrite.go      rewriting a request: which values are compressed, by which version of the schema
//	valuecodec.go   compressing and decompressing one value
//	replies.go      handleReply carries a reply from the server to the client, decompressed within the budget
//	commands.go     the table: how each type of request is handled; protocol features
//	frames.go       reading frames from a connection, and gathering them for one
//	outstanding.go  requests that wait for replies, with copies of those that may have to be sent again
//	streamqueues.go keeps the order of a stream's requests when one of them has to be sent again
//
// Rarer branches:
//
//	retry.go        sends requests again that the server refused for their schema version, or in steps
//	steps.go        carries out requests that need the stored tuple, in steps
//	updater.go      an UPDATE or UPSERT as calls of the stored function, and what each server version accepts
//	tuplesimulator.go
//	                adapting operations to a stored tuple, field by field
//	operations.go   what UPDATE and UPSERT do to fields, and which fields they name
//	calls.go        compresses arguments of functions; refuses operations in them that may cut envelopes
//	sql.go          SQL statements that may use spaces with compressed fields
//	replication.go  forwards connections for replication unchanged
//	drain.go        the end of a session when the gateway shuts down
//	login.go        the user of a client, and the limits before a login
//
// Shared state and settings:
//
//	catalog.go      the schema as the server describes it, and when it is read again
//	spaces.go       rules and schema together: the treatment of each field of each space
//	trace.go        spans of requests that are traced
//	errors.go       classes of errors, and error replies of the gateway
//	config.go       the configuration of a gateway
//
// A session can be built and tested without a server (newParts in harness_test.go).
//
// # Schema versions
//
// A rewritten request carries a stamp: the version of the schema by which it was rewritten. If the schema
// has changed, the server refuses the request (error 109). Then the gateway reads the schema again and
// rewrites the client's original request. So no value is compressed for a field that has got an index
// in the meantime.
//
// # Compressed bytes and the server
//
// The server must not compute on compressed bytes. Fields of an index, a constraint or a foreign key are
// never compressed; the code calls them touched. Requests that would compute on other compressed fields
// are carried out in steps (splices), or refused with the server's error ER_UNSUPPORTED (SQL).
//
//	client -> handleRequest: its queue, rewrite: compressed, unchanged or refused -> server
//	              |    outstanding: by sync    |
//	client <- handleReply: decompress the envelopes, wherever they are <------------ server
package tarantool
