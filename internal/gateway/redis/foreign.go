package redis

import (
	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/foreign"
)

// Values that the clients' own library has compressed, under rules that name its format. Their content is sealed, and clients get it
// in that format again, or bare, where the rule says to plain.

// contentRoom is how much of the content of a value of n bytes is opened, and whether that needs no budget.
func (v *vault) contentRoom(n int) (limit int, free bool) {
	limit = foreign.Room(n, v.maxSeal)
	return limit, limit <= freeBytes
}

// contents are the formats of the values in a reply that clients get the content of: those of all, or of one element after the
// other. None is nil.
type contents [][]foreign.Format

// at is for the element at hand.
func (c contents) at(path []level) []foreign.Format {
	switch {
	case c == nil:
		return nil
	case len(c) == 1:
		return c[0]
	case len(path) == 1 && int(path[0].index) < len(c):
		return c[path[0].index]
	}
	return nil
}

// openBytes is what opening an envelope may take: of a foreign value its content, the value, and the reply with it.
func openBytes(h cinch.Header) int {
	if h.IsForeign() {
		return h.RawLen + 2*h.MaxValueLen()
	}
	return h.RawLen
}

// standsFor is what a client gets for an envelope made of a value: another value of a library's, or its content.
func (v *vault) standsFor(sealed, value []byte) []byte {
	h, err := cinch.ParseHeader(sealed)
	if err != nil || !h.IsForeign() && h.RawLen == len(value) {
		return value
	}
	if opened, err := v.Sealer.Open(nil, sealed); err == nil {
		return opened
	}
	return value
}

// sharedOp is one op for all replies whose values are in the formats, so that entries in the queue are one.
func (v *vault) sharedOp(formats []foreign.Format) *op {
	if o := v.bare.Load(); o != nil && &o.contents[0][0] == &formats[0] {
		return o
	}
	o := &op{shared: true, contents: contents{formats}}
	v.bare.Store(o)
	return o
}

// needsNoValue reports that a command may go to the server under a rule to plain too: it counts with what is a number as it is stored,
// as INCR does, or looks at no value.
func (r *request) needsNoValue() bool {
	return r.cmd.strategy == floats || r.cmd.name == "delex" && len(r.args) == 2
}

// textToPlain refuses what works on a stored value: that may be in the library's format, sealed as that, or sealed plain.
const textToPlain = "ERR cinch: a rule says to: plain of this key, so its value may still be in the format of a client's library, and only whole values can be read and written: " +
	"finish with cinch pack --allow-recode, then take format and to out of the rule"
