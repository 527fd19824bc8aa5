package redis

import (
	"bytes"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
	"github.com/cinch-layer/cinch/internal/policy"
)

// A value that begins with the magic is wrapped when it is written, since it would be decompressed when it is
// read. In two cases the gateway does not see everything that is written: in excluded keys, where APPEND,
// SETBIT and the like are not guarded, and in scripts.
//
// Excluded keys are promised to hold no envelopes. Bytes there that only look like one pass unchanged in both
// directions, so that a bitmap which happens to begin with the magic works like any other. Only bytes that
// really are an envelope are wrapped by SET and similar commands, and decompressed by GET. A client that
// assembles an envelope from parts in an excluded key reads its content; that is counted.

// The same holds for hashes that a search index covers, since a vector may begin with any bytes.

// echoEntry returns the entry of a script's reply. A script may return what it was given, so an element that is
// part of an argument, or of a value decompressed in place, is not an envelope.
func (t *transaction) echoEntry(r *request, parts []part) entry {
	e := entry{shape: r.cmd.reply}
	if plain := t.lookalikes(r, parts); plain != nil {
		e.data = &entryData{plainBytes: plain}
	}
	return e
}

// lookalikes returns the plain bytes known to a request that may look like envelopes: its arguments that
// contain the magic, copied, and the values that begin with it and were decompressed for the request or set
// before it in the same transaction.
func (t *transaction) lookalikes(r *request, parts []part) (plain [][]byte) {
	for _, a := range r.args {
		if bytes.Contains(a, []byte(envelope.Magic)) {
			plain = append(plain, bytes.Clone(a))
		}
	}
	for i := range parts {
		if envelope.IsSealed(parts[i].Value) {
			plain = append(plain, parts[i].Value)
		}
	}
	for i := range t.known {
		if envelope.IsSealed(t.known[i].Value) {
			plain = append(plain, t.known[i].Value)
		}
	}
	return plain
}

// mayLeaveMagic reports whether the command may leave a plain value that begins with the magic. That must be
// wrapped, if the user may run the script for it.
func (t *transaction) mayLeaveMagic(r *request, parts []part) bool {
	return !r.unguarded && r.cmd.strategy != compared && (r.cmd.writes || t.lookalikes(r, parts) != nil)
}

// escapeArgs returns a call of lua.Escape. All compressed strings of the keys have been decompressed in
// place, so whatever begins with the magic now is plain.
func (t *transaction) escapeArgs(r *request, keys [][]byte, parts []part) [][]byte {
	return lua.CallEscape(keys, t.lookalikes(r, parts))
}

// isLookalike reports whether a value that begins with the magic is stored unchanged. It is, if no
// envelopes are expected at its key and its header does not parse.
func (v *valueCodec) isLookalike(rules *policy.Policy, a *policy.Address, value []byte) bool {
	if !rules.Excluded(a.Key) && (a.Type != policy.Hash || !v.mayBeIndexed(a.Key)) {
		return false
	}
	_, err := envelope.ParseHeader(value)
	return err != nil
}
