// Package redis is the gateway for Redis: it stands between clients and one server,
// seals the values that a policy names on their way in and opens envelopes on their way
// out, so that a client sees what it would see without it.
//
// The common SET and GET go through five files, and come back through three. Read them in this order:
//
//	gateway.go       what a gateway is made of, and the seam: Serve and Shutdown
//	session.go       one client: two pumps, and which part handles a request
//	rewrite.go       requests: which arguments are sealed
//	conversation.go  what is said to the server, and what is expected as its answers
//	commands.go      the table: what each command does with values
//
//	replies.go       replies: each is carried as its entry in the queue says
//	copy.go          which elements are values
//	open.go          values that are opened, under the reply budget
//
// What is rarer branches off in session.handle, each to a type in a file of its name: guard (commands that
// compute on a stored value, run by one guarded script), units (scripts and commands that the table does not
// know, run in a transaction under WATCH), within (both, where the client has a transaction open itself),
// sorter (SORT), control (what changes the conversation), large (requests larger than the buffer). They
// share smaller parts: standing (database, login, version), transaction, stash (what is opened for a
// request), rights, escapes, refusals, and second, a connection for questions that the first can't be asked.
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
