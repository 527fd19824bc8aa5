package mongo

import "bytes"

// sessionID is the random part of a logical session's identifier: 16 bytes that a client
// repeats in each of its requests, and that no dictionary can know.
type sessionID [16]byte

// maxSessionMessage bounds where it is looked for, in bytes: it is taken out of messages in
// which it counts.
const maxSessionMessage = 4 << 10

// lsidHead is what stands before it: lsid: {id: UUID(…)}.
var lsidHead = []byte("\x03lsid\x00\x1e\x00\x00\x00\x05id\x00\x10\x00\x00\x00\x04")

// findSession returns what looks like a session's identifier first in a body, and where it
// is; 0 for nowhere. Both ends of a pair ask of the same bytes, but for the identifier itself.
func findSession(body []byte) (id sessionID, at int) {
	if len(body) > maxSessionMessage {
		return id, 0
	}
	i := bytes.Index(body, lsidHead)
	if i < 0 || i+len(lsidHead)+len(id) > len(body) {
		return id, 0
	}
	at = i + len(lsidHead)
	copy(id[:], body[at:])
	return id, at
}
