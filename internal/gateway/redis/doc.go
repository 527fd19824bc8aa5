// Package redis is the gateway for Redis: it stands between clients and one server,
// seals the values that a policy names on their way in and opens envelopes on their way
// out, so that a client sees what it would see without it.
//
// The common SET and GET are read in these files, in this order. go run ./internal/arrows/walk --path redis-set prints every
// function that one request enters.
//
//	config.go        what a gateway is told
//	gateway.go       what a gateway is made of, and the seam: Serve and Shutdown
//	session.go       one client: next reads a request, handle looks it up and has its values sealed, or another part handle it
//	rewrite.go       sealValue: by which setting a value is sealed, and what became of it
//	conversation.go  what is said to the server, and what is expected as its answers
//	commands.go      the table: what each command does with values
//	queue.go         what the reply pump is told of each request that was sent
//	sink.go          bytes to a connection, copied only where something was changed
//
//	replies.go       replies: quick carries what most are, the others go as their entries in the queue say
//	copy.go          which elements are values
//	open.go          values that are opened, under the reply budget
//
// What is rarer branches off in session.handle, each to a type of its own: large (requests larger than
// the buffer), control (what changes the conversation, told apart by what it is about: login, multi, feed, nodes,
// script and index commands) and stored, the commands that work on stored values themselves, sealed ones among
// them. Those are run by guard (one guarded script runs the command on the value), units (scripts and what
// the table does not know, in a transaction under WATCH), within (both, where the client has a transaction open
// itself) and sorter (SORT).
//
// These stand on five that each have one thing to know: conversation, with its standing (database, login,
// version) and its transaction; user, what the client's user may do, with a second connection for questions that the
// first can't be asked; vault, which seals and opens; stash, which holds what is opened for a request; and
// prober, which looks at what keys hold.
//
// foreign.go is about values that the clients' own library has compressed, which rewrite.go seals and open.go opens.
//
// trace.go makes spans of one command at a time of a client that is traced.
//
// A reply pump hands over likewise: to answers (to what the gateway has asked itself), messages (that nobody
// asked for), nodeReplies and redirects (which name other servers).
//
// Three packages below know nothing of sessions: compute (answers from values alone), lua (the scripts) and
// cluster (where the servers are).
//
// # Order
//
// Every client has one upstream connection of its own, so that order, transactions,
// blocking and pub/sub are the server's. The request pump queues, for each request that
// it sends, how its reply is to be treated; the reply pump takes these entries in order.
//
//	client -> pumpRequests -> table -> seal -> upstream
//	              |  queue of entries  |
//	client <- replyPump   <-  open   <-------- upstream
package redis
