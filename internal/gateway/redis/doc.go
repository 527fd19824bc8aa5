// Package redis is the gateway for Redis: it stands between clients and one server,
// seals the values that a policy names on their way in and opens envelopes on their way
// out, so that a client sees what it would see without it.
//
// Read it in this order:
//
//	gateway.go   what a gateway is made of, and the seam: Serve and Shutdown
//	session.go   one client: two connections, two pumps, a queue between them
//	commands.go  the table: what each command does with values
//	rewrite.go   requests: which arguments are sealed
//	replies.go   replies: which elements are opened
//
// and then, by the kind of command: guard.go (commands that compute on a stored value,
// run by one guarded script), package compute (reads answered here on the opened value),
// unit.go (scripts and commands that the table does not know, run in a transaction
// under WATCH), transaction.go (MULTI), control.go (what changes the conversation),
// large.go (requests larger than the buffer), passing.go (long values that are not sealed),
// stream.go (reading and writing, and what is not copied).
//
// # Order
//
// Every client has one upstream connection of its own, so that order, transactions,
// blocking and pub/sub are the server's. The request pump queues, for each request that
// it sends, how its reply is to be treated; the reply pump takes these entries in order.
//
//	client -> pumpRequests -> table -> seal -> upstream
//	              |  queue of entries  |
//	client <- pumpReplies  <- open   <-------- upstream
package redis
