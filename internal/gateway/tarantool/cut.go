package tarantool

import (
	"math"

	"github.com/tinylib/msgp/msgp"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway"
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
