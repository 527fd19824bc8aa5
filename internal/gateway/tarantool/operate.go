package tarantool

import (
	"fmt"
	"math"
	"slices"

	"github.com/tinylib/msgp/msgp"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	store "github.com/cinch-layer/cinch/internal/store/tarantool"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// updater makes calls of the stored function that carry out one UPDATE or UPSERT: the same
// operations in the same order, made to fit a tuple whose values are sealed. A splice stays one, so
// that the server's own rules for operations on one field hold, but cuts all of the field and pastes
// the new value in, sealed. What the server is to refuse it still refuses.
type updater struct {
	vault *vault
	all   *spaces
	space *space
	r     request // with its values sealed
	index uint32
	key   []byte // MessagePack
	ops   wire.Span
	base  int64 // what the request counts fields and offsets from
	stamp uint64

	server store.Version // which decides what it takes; zero: unknown

	client string // its address, for the log
}

// newUpdater reads a request that has been rewritten in vain.
func newUpdater(v *vault, r *request, plan stepPlan) (*updater, *refusal) {
	u := &updater{vault: v, all: plan.all, space: plan.space, r: *r, stamp: plan.all.version}
	u.r.edits, u.r.spans = nil, nil
	if out, _ := r.apply(v, schemaStamp{}); out != nil { // its values sealed; it is ours from now on
		u.r.bytes = out[5:]
		if u.r.header.Parse(u.r.bytes) != nil || u.r.body.Parse(u.r.bytes, u.r.header.Map.End()) != nil {
			return nil, plan.missing // can't be
		}
	}
	u.base = int64(min(u.r.base(), math.MaxInt32))
	if r.header.Type == wire.Upsert {
		return u, u.upsert()
	}
	return u, u.update()
}

// update finds what an UPDATE changes by which index.
func (u *updater) update() *refusal {
	b := &u.r.body
	u.ops, u.key = b.Tuple, b.Key.Of(u.r.bytes)
	if h, err := wire.ReadHead(u.r.bytes, b.Key.At); b.Key.Len == 0 || err != nil || h.Kind != wire.Array {
		return malformed
	}
	if b.IndexID.Len == 0 && b.IndexName.Len > 0 {
		return u.indexByName()
	}
	id, _ := wire.Uint(b.IndexID.Of(u.r.bytes))
	u.index = uint32(min(id, math.MaxInt32))
	return nil
}

func (u *updater) indexByName() *refusal {
	name, _ := wire.Text(u.r.body.IndexName.Of(u.r.bytes))
	for i := range u.space.Indexes {
		if u.space.Indexes[i].Name == string(name) {
			u.index = u.space.Indexes[i].ID
			return nil
		}
	}
	return unsupported("splice", fmt.Sprintf("index %q of space %s, which the gateway does not know", name, u.space.Name))
}

// upsert makes the key of an UPSERT's tuple. One that is no key of the index, or not whole, the
// server refuses.
func (u *updater) upsert() *refusal {
	b := &u.r.body
	u.ops = b.Ops
	primary := u.space.Primary()
	if primary == nil {
		return unsupported("splice", fmt.Sprintf("space %s, which has no primary index", u.space.Name))
	}
	fields, refused := u.fields(nil, u.r.bytes, b.Tuple.At)
	if refused != nil || b.Tuple.Len == 0 {
		return malformed
	}
	var parts [][]byte
	for _, p := range primary.Parts {
		if p.Path != "" {
			return unsupported("splice", fmt.Sprintf("splices by UPSERT in space %s, whose primary key is within a field: use UPDATE", u.space.Name))
		}
		if p.Field < len(fields) {
			parts = append(parts, fields[p.Field].Of(u.r.bytes))
		}
	}
	u.key = msgp.AppendArrayHeader(nil, uint32(len(parts)))
	for _, p := range parts {
		u.key = append(u.key, p...)
	}
	return nil
}

// maxFields bounds the memory for the fields of one tuple.
const maxFields = 16 << 10

// fields finds those of a tuple.
func (u *updater) fields(dst []wire.Span, b []byte, at int) ([]wire.Span, *refusal) {
	fields, _, err := wire.Elements(dst, b, at, maxFields)
	if err != nil {
		return nil, unsupported("splice", fmt.Sprintf("splices and moves in tuples of over %d fields (space %s)", maxFields, u.space.Name))
	}
	return fields, nil
}

// call is the frame of a step: tuple is what is expected to be stored, nil: this is the first step,
// which only reads if there is something to read. The frame is in a buffer of the pool's.
func (u *updater) call(sync uint64, tuple []byte) ([]byte, *refusal) {
	ops, refused := u.operations(tuple)
	defer gateway.PutBuffer(ops)
	if refused != nil {
		return nil, refused
	}
	b := gateway.GetBuffer(len(tuple) + len(ops) + len(u.r.bytes) + 256)
	b = wire.BeginCall(b, sync, u.stamp, u.r.header.Stream, store.UpdateFunction, 6)
	b = msgp.AppendUint32(b, u.space.ID)
	b = msgp.AppendUint32(b, u.index)
	b = msgp.AppendStringFromBytes(b, u.key)
	b = appendStringOrNil(b, tuple)
	b = msgp.AppendStringFromBytes(b, ops)
	if u.r.header.Type == wire.Upsert {
		b = msgp.AppendStringFromBytes(b, u.r.body.Tuple.Of(u.r.bytes))
	} else {
		b = msgp.AppendNil(b)
	}
	return wire.FinishFrame(b, 0), nil
}

func appendStringOrNil(b, v []byte) []byte {
	if v == nil {
		return msgp.AppendNil(b)
	}
	return msgp.AppendStringFromBytes(b, v)
}

// operations makes the request's operations fit a tuple, in a buffer of the pool's. For nil they
// only count fields as Lua does.
func (u *updater) operations(tuple []byte) ([]byte, *refusal) {
	h, err := wire.ReadHead(u.r.bytes, u.ops.At)
	if err != nil || h.Kind != wire.Array {
		return nil, malformed
	}
	o := operator{u: u, b: u.r.bytes, any: tuple == nil}
	if refused := o.load(tuple); refused != nil {
		return nil, refused
	}
	o.out = gateway.GetBuffer(u.ops.Len + len(tuple))
	next := h.Content.At
	for range h.Count {
		parts, end, err := wire.Elements(u.r.spans, u.r.bytes, next, maxParts)
		u.r.spans = parts
		if err != nil {
			return o.out, malformed // can't be
		}
		if refused := o.operation(parts); refused != nil {
			return o.out, refused
		}
		next = end
	}
	if refused := o.paste(); refused != nil {
		return o.out, refused
	}
	if refused := o.openMoved(); refused != nil {
		return o.out, refused
	}
	list := o.out
	o.out = msgp.AppendArrayHeader(gateway.GetBuffer(len(list)+8), uint32(o.count))
	o.out = append(o.out, list...)
	gateway.PutBuffer(list)
	return o.out, nil
}

// operator carries out operations as far as it matters where the fields are and what they hold.
type operator struct {
	u     *updater
	b     []byte // the request
	any   bool   // it does not matter: there is no tuple
	slots []slot // the tuple's fields as the operations before have left them
	moved bool
	out   []byte // the operations, but for what is pasted
	count int
	cuts  []pasting
}

// slot is a field.
type slot struct {
	value []byte // MessagePack, as it is or will be stored
	raw   []byte // of a string: when it has been opened
	ready bool   // it has been
	cut   *cut   // what operations before have made of it
}

func (o *operator) load(tuple []byte) *refusal {
	if o.any {
		return nil
	}
	fields, refused := o.u.fields(nil, tuple, 0)
	if refused != nil {
		return refused
	}
	o.slots = make([]slot, len(fields))
	for i, at := range fields {
		o.slots[i].value = at.Of(tuple)
	}
	return nil
}

// operation appends one, and does it.
func (o *operator) operation(parts []wire.Span) *refusal {
	o.count++
	b := o.b
	if len(parts) < 3 {
		o.copy(parts)
		return nil // the server refuses it
	}
	op, _ := wire.Text(parts[0].Of(b))
	if len(op) == 0 {
		o.copy(parts)
		return nil
	}
	t := o.u.space.target(parts[1].Of(b), o.u.r.base())
	at, found := o.place(t, op[0])
	switch {
	case op[0] == ':':
		return o.splice(parts, at, found && !t.nested)
	case !found || t.nested:
	case op[0] == '=', op[0] == '!':
		if refused := o.set(op[0] == '!', at, parts[2].Of(b)); refused != nil {
			return refused
		}
	case op[0] == '#':
		o.remove(at, parts[2].Of(b))
	}
	o.copy(parts)
	return nil
}

// place is the field's position from 0, and whether there may be such a one.
func (o *operator) place(t target, op byte) (int, bool) {
	if o.any || !t.known && !t.fromEnd {
		return 0, false
	}
	at := t.position
	if t.fromEnd {
		at = t.number + len(o.slots)
		if op == '!' {
			at++
		}
	}
	return at, at >= 0
}

// copy appends an operation as it is, but for what is counted.
func (o *operator) copy(parts []wire.Span) {
	b := o.b
	o.out = msgp.AppendArrayHeader(o.out, uint32(len(parts)))
	splice := false
	for i, at := range parts {
		v := at.Of(b)
		switch {
		case i == 0:
			op, _ := wire.Text(v)
			splice = len(op) > 0 && op[0] == ':'
			o.out = append(o.out, v...)
		case i == 1, i == 2 && splice:
			o.out = o.appendNumber(o.out, v)
		default:
			o.out = append(o.out, v...)
		}
	}
}

// appendNumber appends what counts from the request's base as it counts in Lua. What is below the
// base is refused by the server.
func (o *operator) appendNumber(dst, v []byte) []byte {
	n, ok := wire.Int(v)
	if !ok || n < 0 {
		return append(dst, v...)
	}
	shifted := n - o.u.base + 1
	if n <= math.MaxInt32 {
		shifted = min(shifted, math.MaxInt32) // and no other is further behind
	}
	return msgp.AppendUint64(dst, uint64(max(shifted, 0)))
}

// set assigns or inserts. Newer servers fill the gap before a field that is far behind the last;
// older ones refuse it, or leave it out in an UPSERT.
func (o *operator) set(insert bool, at int, v []byte) *refusal {
	if at > len(o.slots) {
		if o.u.r.header.Type == wire.Upsert {
			return unsupported("splice", fmt.Sprintf("an UPSERT that splices or moves sealed fields of space %s, and sets a field that is not behind the last: use UPDATE", o.u.space.Name))
		}
		if at > maxFields {
			return nil // the server refuses it
		}
		for len(o.slots) < at {
			o.slots = append(o.slots, slot{value: []byte{0xc0}})
		}
	}
	if at == len(o.slots) {
		o.slots = append(o.slots, slot{value: v})
		return nil
	}
	if insert {
		o.moved = true
		o.slots = append(o.slots, slot{})
		copy(o.slots[at+1:], o.slots[at:])
	}
	o.slots[at] = slot{value: v}
	return nil
}

func (o *operator) remove(at int, v []byte) {
	n, ok := wire.Uint(v)
	if !ok || at >= len(o.slots) {
		return // the server refuses it, or there is nothing to remove
	}
	o.moved = true
	end := at + int(min(n, uint64(len(o.slots)-at)))
	o.slots = append(o.slots[:at], o.slots[end:]...)
}

// open gives the value of a field that holds a string or binary.
func (o *operator) open(at int) ([]byte, *refusal) {
	s := &o.slots[at]
	if s.ready {
		return s.raw, nil
	}
	h, err := wire.ReadHead(s.value, 0)
	if err != nil {
		return nil, o.u.vault.broken(err, o.u.client)
	}
	content := h.Content.Of(s.value)
	if cinch.IsSealed(content) {
		if content, err = o.u.vault.openStored(content); err != nil {
			return nil, o.u.vault.broken(err, o.u.client)
		}
	}
	s.raw, s.ready = content, true
	return content, nil
}

// appendSealed appends a string that becomes the field at a position, and reports whether it did so in an envelope.
func (o *operator) appendSealed(dst []byte, at int, value []byte) (out []byte, sealed bool, refused *refusal) {
	var rule *policy.Rule
	if !o.u.all.off {
		rule = o.u.space.at(at).rule(len(value))
	}
	if rule == nil {
		if !cinch.IsSealed(value) {
			return msgp.AppendStringFromBytes(dst, value), false, nil
		}
		if why := o.u.space.touchedAt(at); why != "" {
			return dst, false, unsupported("magic", fmt.Sprintf("values that begin like its envelopes in field %d of space %s: %s", at+1, o.u.space.Name, why))
		}
	}
	stored, sealed := o.u.vault.seal(nil, value, rule, o.u.r.login)
	defer gateway.PutBuffer(stored)
	return msgp.AppendStringFromBytes(dst, stored), sealed, nil
}

// openMoved appends assignments of the values that have been moved, sealed, to fields that an index
// or a constraint touches.
func (o *operator) openMoved() *refusal {
	if !o.moved {
		return nil
	}
	for at := range o.slots {
		why := o.u.space.touchedAt(at)
		h, err := wire.ReadHead(o.slots[at].value, 0)
		if why == "" || err != nil || h.Kind != wire.String && h.Kind != wire.Binary || !o.slots[at].sealed(h) {
			continue
		}
		raw, refused := o.open(at)
		if refused != nil {
			return refused
		}
		if cinch.IsSealed(raw) {
			return unsupported("magic", fmt.Sprintf("values that begin like its envelopes in field %d of space %s: %s", at+1, o.u.space.Name, why))
		}
		o.out = msgp.AppendArrayHeader(o.out, 3)
		o.out = msgp.AppendString(o.out, "=")
		o.out = msgp.AppendUint64(o.out, uint64(at+1))
		o.out = append(wire.AppendHead(o.out, h.Kind, len(raw)), raw...)
		o.count++
	}
	return nil
}

// What servers take in one UPDATE or UPSERT differs: before 3.0 one operation a field, an UPSERT being
// silent about the others; from then on several, each of which works on what those before have left;
// from 3.2 on splices of binaries. So all that operations cut out of a field and paste into it is made
// here, and pasted by the last of them; those before stay, and do nothing. Then a value is sealed once,
// however many operations there are.

// cut describes a field that splices change.
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
	raw, refused := o.open(at)
	if refused != nil {
		return refused
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

// cutting holds a splice's arguments.
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
func (o *operator) paste() (refused *refusal) {
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
		if o.out, p.cut.sealed, refused = o.appendSealed(o.out, p.cut.at, p.cut.raw); refused != nil {
			return refused
		}
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
