package redis

import (
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/envelope/clientformat"
)

// Some client libraries compress values themselves. Under a rule that names such a format, the gateway unwraps the
// value and compresses its content instead. Clients get the content in the library's format again, or bare if the
// rule has "to: plain".

// contentLimit returns how many bytes of content of a value of n bytes may be unwrapped, and whether that
// needs no budget.
func (v *valueCodec) contentLimit(n int) (limit int, free bool) {
	limit = clientformat.MaxContentLen(n, v.maxSeal)
	return limit, limit <= freeBytes
}

// contents holds the library formats to unwrap for the values in a reply: one entry for all values, or one for each
// element. nil unwraps nothing.
type contents [][]clientformat.Format

// at returns the formats for the element at path.
func (c contents) at(path []level) []clientformat.Format {
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

// openBytes returns the bytes that decompressing an envelope may take. For a foreign value that is its
// content, the value, and the reply with it.
func openBytes(h envelope.Header) int {
	if h.IsForeign() {
		return h.RawLen + 2*h.MaxValueLen()
	}
	return h.RawLen
}

// clientValue returns what clients read for an envelope made of value: value itself, another encoding of it in
// the library's format, or its content.
func (v *valueCodec) clientValue(sealed, value []byte) []byte {
	h, err := envelope.ParseHeader(sealed)
	if err != nil || !h.IsForeign() && h.RawLen == len(value) {
		return value
	}
	if opened, err := v.Sealer.Open(nil, sealed); err == nil {
		return opened
	}
	return value
}

// sharedData returns one entryData for all replies with these formats, so that their queue entries can be merged.
func (v *valueCodec) sharedData(formats []clientformat.Format) *entryData {
	if o := v.sharedBare.Load(); o != nil && &o.contents[0][0] == &formats[0] {
		return o
	}
	o := &entryData{shared: true, contents: contents{formats}}
	v.sharedBare.Store(o)
	return o
}

// needsNoValue reports whether a command may run on the server even under a rule to plain, because it works on a
// stored number like INCR, or reads no value.
func (r *request) needsNoValue() bool {
	return r.cmd.strategy == floats || r.cmd.name == "delex" && len(r.args) == 2
}

// textToPlain refuses a command on stored values: those may be in the library's format, compressed from it,
// or compressed bare.
const textToPlain = "ERR cinch: a rule with to: plain covers this key, so its value may still be in the format of a client's library, and only whole values can be read and written: " +
	"finish with cinch pack --allow-recode, then remove format and to from the rule"
