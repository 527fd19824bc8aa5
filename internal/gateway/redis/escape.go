package redis

import (
	"bytes"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
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

// echoing is the entry of a script's reply. What the script was given it may return: an
// element that is a part of an argument, or of a value that was put back, is no envelope of ours.
func (t *transaction) echoing(r *request, parts []part) entry {
	e := entry{shape: r.cmd.reply}
	if plain := t.lookalikes(r, parts); plain != nil {
		e.op = &op{plainBytes: plain}
	}
	return e
}

// lookalikes are the plain bytes known to a request that hold the magic: its arguments, which are
// copied, and, where they begin with it, values that are put back for it or were set before it in
// the same transaction.
func (t *transaction) lookalikes(r *request, parts []part) (plain [][]byte) {
	for _, a := range r.args {
		if bytes.Contains(a, []byte(cinch.Magic)) {
			plain = append(plain, bytes.Clone(a))
		}
	}
	for i := range parts {
		if cinch.IsSealed(parts[i].Value) {
			plain = append(plain, parts[i].Value)
		}
	}
	for i := range t.known {
		if cinch.IsSealed(t.known[i].Value) {
			plain = append(plain, t.known[i].Value)
		}
	}
	return plain
}

// leavesMagic reports that the command may leave a plain value that begins with the
// magic, which must not stay so where the user may run the script that wraps it.
func (t *transaction) leavesMagic(r *request, parts []part) bool {
	return !r.unguarded && r.cmd.strategy != compared && (r.cmd.writes || t.lookalikes(r, parts) != nil)
}

// escapeArgs makes a call of lua.Escape. All sealed strings of the keys have been put
// back, so whatever begins with the magic now is plain.
func (t *transaction) escapeArgs(r *request, keys [][]byte, parts []part) [][]byte {
	return lua.CallEscape(keys, t.lookalikes(r, parts))
}
