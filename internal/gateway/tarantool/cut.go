package tarantool

import (
	"math"
	"slices"

	"github.com/tinylib/msgp/msgp"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway"
	store "github.com/cinch-layer/cinch/internal/store/tarantool"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// What servers take in one UPDATE or UPSERT differs: before 3.0 one operation a field, an UPSERT being
// silent about the others; from then on several, each of which works on what those before have left;
// from 3.2 on splices of binaries. So all that operations cut out of a field and paste into it is made
// here, and pasted by the last of them; those before stay, and do nothing. Then a value is sealed once,
// however many operations there are.

// cut is what splices make of a field.
type cut struct {
	at     int    // the field's position when the last of them came
	last   int    // in operator.cuts
	raw    []byte // the value that they make
	sealed bool   // it goes sealed
}

// pasting is a splice whose offset, length and text are still to be written.
type pasting struct {
	out int // where in operator.out
	cut *cut
}

// splice appends a splice, with all of the new value in place of a part where the field's is
// known.
func (o *operator) splice(parts []wire.Span, at int, found bool) *refusal {
	if !found || at >= len(o.slots) {
		o.copy(parts)
		return nil
	}
	c, ok := o.cutting(parts)
	if !ok || !o.u.cuts(o.slots[at].value, 0) {
		o.copy(parts)
		return nil // the server refuses it
	}
	raw, no := o.open(at)
	if no != nil {
		return no
	}
	o.out = msgp.AppendArrayHeader(o.out, 5)
	o.out = append(o.out, parts[0].Of(o.b)...)
	o.out = o.appendNumber(o.out, parts[1].Of(o.b))
	from, to, ok := c.within(len(raw))
	before := o.slots[at].cut
	if before != nil && !o.u.takesSeveral() {
		if o.u.server == (store.Version{}) {
			return unsupported("splice", "several splices of a field that may be sealed, by a server that does not say its version")
		}
		ok = false // whatever it says
	}
	if !ok { // out of bounds for the value, and so for what is stored
		o.out = msgp.AppendInt64(o.out, -math.MaxInt32)
		o.out = msgp.AppendInt64(o.out, 0)
		o.out = msgp.AppendString(o.out, "")
		return nil
	}
	if before == nil {
		raw = slices.Clone(raw) // perhaps the tuple's own bytes
	}
	o.cut(at, slices.Replace(raw, from, to, c.paste...))
	return nil
}

// cutting is what a splice says.
type cutting struct {
	offset int64 // from 0, or negative from the end
	length int64
	paste  []byte
}

// cutting reads the arguments of a splice, if they are what the server takes.
func (o *operator) cutting(parts []wire.Span) (c cutting, ok bool) {
	if len(parts) != 5 {
		return c, false
	}
	b := o.b
	var ok1, ok2 bool
	c.offset, ok1 = wire.Int(parts[2].Of(b))
	c.length, ok2 = wire.Int(parts[3].Of(b))
	h, err := wire.ReadHead(b, parts[4].At)
	if err == nil {
		c.paste = h.Content.Of(b)
	}
	if !ok1 || !ok2 || !o.u.cuts(b, parts[4].At) || !is32(c.offset) || !is32(c.length) {
		return c, false
	}
	if c.offset >= 0 {
		c.offset -= o.u.base
		return c, c.offset >= 0
	}
	return c, true
}

func is32(n int64) bool { return n >= math.MinInt32 && n <= math.MaxInt32 }

// within says which bytes of a value of n bytes are cut, as the server does it: a negative offset
// counts from behind the last byte, a negative length is what to leave at the end. It reports false
// when the offset is before the first byte.
func (c *cutting) within(n int) (from, to int, ok bool) {
	size, offset, length := int64(n), c.offset, c.length
	if offset < 0 {
		if -offset > size+1 {
			return 0, 0, false
		}
		offset += size + 1
	}
	offset = min(offset, size)
	rest := size - offset
	switch {
	case length < 0 && -length > rest:
		length = 0
	case length < 0:
		length += rest
	default:
		length = min(length, rest)
	}
	return int(offset), int(offset + length), true
}

// takesSeveral reports that the server takes several operations on a field.
func (u *updater) takesSeveral() bool { return u.server.AtLeast(3, 0) }

// cuts reports that the server takes splices of what is at a place in b, and with it.
func (u *updater) cuts(b []byte, at int) bool {
	h, err := wire.ReadHead(b, at)
	return err == nil && (h.Kind == wire.String || h.Kind == wire.Binary && u.server.AtLeast(3, 2))
}

// cut notes what a splice makes of a field.
func (o *operator) cut(at int, value []byte) {
	s := &o.slots[at]
	if s.cut == nil {
		s.cut = &cut{}
	}
	s.raw, s.ready = value, true
	s.cut.at, s.cut.last, s.cut.raw = at, len(o.cuts), value
	o.cuts = append(o.cuts, pasting{len(o.out), s.cut})
}

// paste writes what the splices paste.
func (o *operator) paste() (no *refusal) {
	if len(o.cuts) == 0 {
		return nil
	}
	list, from := o.out, 0
	defer gateway.PutBuffer(list)
	o.out = gateway.GetBuffer(len(list) + len(o.cuts[len(o.cuts)-1].cut.raw))
	for i, p := range o.cuts {
		o.out = append(o.out, list[from:p.out]...)
		from = p.out
		o.out = msgp.AppendInt64(o.out, 1)
		if p.cut.last != i {
			o.out = msgp.AppendString(msgp.AppendInt64(o.out, 0), "")
			continue
		}
		o.out = msgp.AppendInt64(o.out, math.MaxInt32)
		before := len(o.out)
		if o.out, no = o.appendSealed(o.out, p.cut.at, p.cut.raw); no != nil {
			return no
		}
		h, err := wire.ReadHead(o.out, before)
		p.cut.sealed = err == nil && cinch.IsSealed(h.Content.Of(o.out))
	}
	o.out = append(o.out, list[from:]...)
	return nil
}

// sealed reports that the field, whose head is given, will hold an envelope.
func (s *slot) sealed(h wire.Head) bool {
	if s.cut != nil {
		return s.cut.sealed
	}
	return cinch.IsSealed(h.Content.Of(s.value))
}
