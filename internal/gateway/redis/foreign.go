package redis

import (
	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/foreign"
)

// Values that the clients' own library has compressed, under rules that name its format. Their content is sealed, and clients get it
// in that format again, or bare, where the rule says to plain.

// mostRatio is how many times as long as the value the content of a long one may be.
const mostRatio = 32

// contentRoom is how much of the content of a value of n bytes is opened, and whether that needs no budget.
func (v *vault) contentRoom(n int) (limit int, free bool) {
	limit = min(max(freeBytes, mostRatio*n), v.maxSeal)
	return limit, limit <= freeBytes
}

// sealContent appends an envelope of the content of a foreign value of n bytes, if that is worth it.
func (v *vault) sealContent(dst, content []byte, f foreign.Format, n int, st codec.Setting, worth func(raw, sealed int) bool, bare bool) ([]byte, bool) {
	if !bare {
		return v.sealer.SealForeign(dst, content, cinch.Foreign{Format: uint8(f)}, n, st, worth)
	}
	out := v.sealer.Seal(dst, content, st, func(_, sealed int) bool { return worth(n, sealed) })
	if !cinch.IsSealed(out[len(dst):]) {
		return dst, false
	}
	return out, true
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

// openBytes is what opening an envelope may take.
func openBytes(h cinch.Header) int {
	if h.IsForeign() {
		return h.RawLen + h.MaxValueLen()
	}
	return h.RawLen
}
