package redis

import (
	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/policy"
)

// A value that begins with the magic is wrapped when it is written, or it would be opened when it is
// read. There are two places where the gateway does not see all that is written: in keys that are
// excluded, where APPEND, SETBIT and the like are not guarded, and in scripts.
//
// Excluded keys are promised to hold no envelopes. So what looks like one there and is none passes as
// it is, in both directions: a bitmap that happens to begin with the magic works as any other. Only
// bytes that are an envelope indeed are wrapped by SET and its kin, and opened by GET; a client that
// makes such bytes out of parts in an excluded key gets what is inside, and that is counted.

// So it is with hashes that a search index covers: a vector may begin with any bytes.

// keepsLookalike reports that a value that begins with the magic is stored as it is: who reads it can see
// that it is no envelope.
func (s *session) keepsLookalike(a *policy.Address, value []byte) bool {
	if !s.rules().Excluded(a.Key) && (a.Type != policy.Hash || !s.g.indexes.cover(a.Key)) {
		return false
	}
	_, err := cinch.ParseHeader(value)
	return err != nil
}

// readsExcluded reports that a command's reply is of excluded keys only.
func (s *session) readsExcluded(r *request) bool {
	if r.cmd.reply == shapeNone || len(r.args) < 2 {
		return false
	}
	switch r.cmd.name {
	case "mget":
		return s.excluded(r.args[1:])
	case "xread", "xreadgroup", "xinfo":
		return false
	}
	return s.excluded(r.args[1:2]) || r.cmd.name[0] == 'h' && s.g.indexes.cover(r.args[1])
}
