// Package lanes compresses the Protocol Buffers messages that two gateways exchange over a link in sessions of
// cinch-proto, version 2 (package codec/proto/history), which remember earlier messages. docs/PEER.md specifies the
// protocol.
//
// A link carries many calls at a time, and their messages are read in any order. But the messages of a session must be
// decompressed in the order in which they were compressed. So each direction of a link has a few lanes with one session
// each, and one call at a time holds a lane:
//
//	call -> Out.Append -> lane's Writer ==> the call's stream ==> In.Open -> lane's Reader -> call
//
// These rules make each message meet the session that it was compressed with:
//
//  1. Only the call that holds a lane compresses in it. The messages of a call are in one stream, so they are read in
//     the order in which they were compressed.
//  2. A lane goes to the next call with its session only if the reader has decompressed all messages in it. For
//     requests the far gateway reports in each response how many messages of the call it has decompressed, and the near
//     gateway compares. For replies the near gateway, which reads them, gives lanes to calls. A reply that was read to
//     its end, trailers included, has been decompressed.
//  3. Otherwise (the call was cancelled, refused, cut or answered early) the lane's next message begins a new session,
//     which needs no earlier message.
//  4. The messages of a lane are numbered, through all of its sessions. The reader accepts the next number, or a higher
//     one that begins a session. It refuses any other message, and its state does not change.
//
// By rules 1 to 3, every message of a call that neither end has given up is accepted by rule 4: the earlier messages of
// its session were decompressed, in this call by rule 1, in earlier calls by rule 2. Rule 4 refuses messages of a call
// that the writer has given up after its lane went to another call: their numbers are lower. Before the lane's next
// message such messages may still be decompressed. That changes the reader's session, but by rule 3 the next message
// begins another one. So no call ever waits for a message of another call. A checksum in each message detects what a
// bug or a hostile peer breaks nevertheless.
//
// In reading order:
//
//	ends.go     all lanes of one end of a link
//	writers.go  lanes in which this end compresses
//	readers.go  lanes in which this end decompresses
//	link.go     makes the lanes of a link
//	memory.go   their memory
//	message.go  the header of a message
//	headers.go  the HTTP headers about lanes
//	metrics.go  Prometheus metrics
package lanes
