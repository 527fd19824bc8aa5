// Package redis implements the gateway for Redis. It stands between clients and one server, compresses the
// values that a policy selects on their way in and decompresses them on their way out, so that a client sees
// what it would see without the gateway.
//
// To follow a common SET and GET, read these files in this order. The command
// go run ./internal/archtest/walk --path redis-set prints every function that one request enters.
//
//	config.go         the configuration of a gateway
//	gateway.go        the parts of a gateway, and its interface: Serve and Shutdown
//	session.go        one client: next reads a request, handle looks it up and compresses its values
//	rewrite.go        sealValue: chooses the setting for a value and compresses it
//	upstreamwriter.go sends requests to the server and queues the expected replies
//	commands.go       the table: what each command does with values; valuepositions.go finds those behind options
//	queue.go          what the reply pump must know about each request that was sent
//	sink.go           writes to a connection, copying only what was changed
//
//	replies.go        replies: carryBuffered carries the common ones, the others are carried as their queue entries say
//	replycopier.go    which elements of a reply are values
//	replydecoder.go   decompresses values, under the reply budget
//
// Rarer requests branch off in session.handle, each kind to a type of its own: large (largerequest.go: requests larger
// than the buffer; sealonarrival.go compresses a long value while it arrives), control (controlcommands.go: commands
// that change the connection's state; connectioncommands.go, transaction.go, pushframes.go, nodecommands.go,
// scriptcommands.go and indexcommands.go have them by subject) and stored (commands that work on stored values,
// compressed ones included). Stored commands are run by guard (guard.go: one guarded script runs the command on the
// value), units (gatewaytransaction.go: scripts and commands that the table does not know, in a transaction of the
// gateway), nestedUnits (insidetransaction.go: the same while the client has a transaction open or watches keys) and
// sorter (sort.go: SORT).
//
// These rely on five types with one task each: upstreamWriter holds the sessionState (database, login,
// protocol version) and the transaction; user (rights.go) knows the client's permissions and has a sideConn, a
// second connection for questions that cannot be asked on the first; valueCodec compresses and decompresses;
// decodeBuffer holds values decompressed for a request; keyProber examines the values that keys hold.
// dialer.go connects to the server, for clients and for the gateway itself.
//
// libraryvalues.go handles values that a client library has compressed, lookalike.go plain values that begin like an
// envelope, and backoff.go keys whose values are decompressed in place again and again.
//
// trace.go makes the spans of traced commands. It traces one command of a client at a time.
//
// The reply pump also delegates: to internalReplies (replies to the gateway's own requests), pushFrames
// (frames that answer no request), nodeReplies and redirects (cluster.go: replies that name other servers) and
// spill (unreadreplies.go: replies that the client does not read yet).
//
// Three packages below do not depend on sessions: compute (answers from values alone), lua (the scripts) and
// cluster (where the servers are).
//
// # Order
//
// Every client has one upstream connection of its own, so the server keeps order, transactions, blocking and
// pub/sub. For each request that it sends, the request pump queues how its reply is to be handled; the reply
// pump takes these entries in order.
//
//	client -> pumpRequests -> table -> seal -> upstream
//	              |  queue of entries  |
//	client <- replyPump   <-  open   <-------- upstream
package redis
