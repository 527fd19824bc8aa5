// Package lanes keeps what two gateways remember of the messages of Protocol Buffers that go over a link: sessions of cinch-proto,
// version 2 (package codec/proto/history). docs/PEER.md has the protocol.
//
// A link carries many calls at a time, and each is read when its reader gets to it. But a session's messages must be opened in the
// order in which they were made. So each direction of a link has a few lanes, each of which is a session, and a lane is held by
// one call at a time:
//
//	call -> Out.Append -> lane's Writer ==> the call's stream ==> In.Open -> lane's Reader -> call
//
// Why what is opened is right:
//
//  1. Only the call that holds a lane seals in it, and a call's messages are read in the order in which they were sealed: they are
//     in one stream.
//  2. A lane goes from one call to the next with its session only if the reader has opened all that was sealed in it. For requests
//     the far gateway tells in each response how many messages of the call it has opened, and the near one compares. For replies
//     the near gateway, which reads them, gives lanes to calls: one that has been read to its end, trailers included, has been opened.
//  3. In any other case (a call that was cancelled, refused, cut or answered early) the lane's next message begins a new session. It needs
//     nothing of what came before.
//  4. Messages of a lane are numbered, through all of its sessions. The reader opens the one that follows the last that it opened; or a
//     later one that begins a session. It refuses others, and nothing changes then.
//
// By 1 to 3 each message of a call that both ends still want is one of these two when it is read: in its session all before it were
// opened, in this call by 1 and in those before by 2. What 4 refuses are messages of calls that the writer has given up, whose lane has
// gone to another call since: their numbers are lower. They may also be opened, as long as their lane has had no other message;
// that changes the reader's session, but 3 has the next message begin another. So no call ever waits for another's message, and each
// message has the session that it was made with. What a bug or a peer's malice breaks nevertheless, the checksum of each message finds.
//
// In reading order:
//
//	ends.go     all lanes of a link at one of its ends
//	writers.go  those in which this end seals; readers.go, those that it opens
//	link.go     lanes of a link; memory.go, what both may take; metrics.go
//	message.go  what stands in front of a message; headers.go, what headers say of lanes
package lanes
