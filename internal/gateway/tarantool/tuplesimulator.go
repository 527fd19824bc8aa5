package tarantool

import (
	"fmt"
	"math"
	"slices"

	"github.com/tinylib/msgp/msgp"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// tupleSimulator adapts operations to a stored tuple. It applies them to the tuple's fields one after the other, to
// know the positions of the fields and their values.
type tupleSimulator struct {
	u       *updater
	b       []byte       // the request
	noTuple bool         // there is no tuple, so the simulation is skipped
	fields  []tupleField // the tuple's fields after the operations so far
	moved   bool         // an operation has moved fields
	out     []byte       // the adapted operations, without the values of pending splices
	count   int          // number of operations in out
	pending []pendingSplice
}

// tupleField is a field of the simulated tuple.
type tupleField struct {
	value     []byte        // MessagePack, as stored, or as assigned by an operation
	raw       []byte        // decompressed value of a string or binary, valid if isDecoded
	isDecoded bool          // raw is set
	spliced   *splicedField // the splices of the field; nil: none so far
}

func (o *tupleSimulator) load(tuple []byte) *refusal {
	if o.noTuple {
		return nil
	}
	fields, refused := o.u.fields(nil, tuple, 0)
	if refused != nil {
		return refused
	}
	o.fields = make([]tupleField, len(fields))
	for i, at := range fields {
		o.fields[i].value = at.Of(tuple)
	}
	return nil
}

// operation appends one operation, adapted, to out and applies it to fields.
func (o *tupleSimulator) operation(parts []wire.Span) *refusal {
	o.count++
	b := o.b
	if len(parts) < 3 {
		o.appendOperation(parts)
		return nil // the server refuses it
	}
	op, _ := wire.Text(parts[0].Of(b))
	if len(op) == 0 {
		o.appendOperation(parts)
		return nil
	}
	t := o.u.space.target(parts[1].Of(b), o.u.r.base())
	at, found := o.position(t, op[0])
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
	o.appendOperation(parts)
	return nil
}

// position returns the position, from 0, of the field t for an operator, and whether the tuple may have that position.
func (o *tupleSimulator) position(t target, op byte) (int, bool) {
	if o.noTuple || !t.known && !t.fromEnd {
		return 0, false
	}
	at := t.position
	if t.fromEnd {
		at = t.number + len(o.fields)
		if op == '!' {
			at++
		}
	}
	return at, at >= 0
}

// appendOperation appends an operation. It changes only field numbers and offsets, so that they count from 1 as in Lua.
func (o *tupleSimulator) appendOperation(parts []wire.Span) {
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

// appendNumber appends a number of the request, which counts from the request's base, changed to count from 1 as in
// Lua. The server refuses numbers below the base.
func (o *tupleSimulator) appendNumber(dst, v []byte) []byte {
	n, ok := wire.Int(v)
	if !ok || n < 0 {
		return append(dst, v...)
	}
	shifted := n - o.u.base + 1
	if n <= math.MaxInt32 {
		shifted = min(shifted, math.MaxInt32) // must stay in the range of the server's numbers
	}
	return msgp.AppendUint64(dst, uint64(max(shifted, 0)))
}

// set assigns or inserts a field. If there is a gap between the last field and the new one, newer servers fill it with
// nil; older servers refuse the operation, or ignore it in an UPSERT.
func (o *tupleSimulator) set(insert bool, at int, v []byte) *refusal {
	if at > len(o.fields) {
		if o.u.r.header.Type == wire.Upsert {
			return unsupported("splice", fmt.Sprintf("an UPSERT that splices or moves compressed fields of space %s, and sets a field beyond the end of the tuple with a gap before it: use UPDATE", o.u.space.Name))
		}
		if at > maxFields {
			return nil // the server refuses it
		}
		for len(o.fields) < at {
			o.fields = append(o.fields, tupleField{value: []byte{0xc0}})
		}
	}
	if at == len(o.fields) {
		o.fields = append(o.fields, tupleField{value: v})
		return nil
	}
	if insert {
		o.moved = true
		o.fields = append(o.fields, tupleField{})
		copy(o.fields[at+1:], o.fields[at:])
	}
	o.fields[at] = tupleField{value: v}
	return nil
}

func (o *tupleSimulator) remove(at int, v []byte) {
	n, ok := wire.Uint(v)
	if !ok || at >= len(o.fields) {
		return // the server refuses it, or there is nothing to remove
	}
	o.moved = true
	end := at + int(min(n, uint64(len(o.fields)-at)))
	o.fields = append(o.fields[:at], o.fields[end:]...)
}

// decode returns the decompressed value of the field at a position, which must hold a string or binary.
func (o *tupleSimulator) decode(at int) ([]byte, *refusal) {
	s := &o.fields[at]
	if s.isDecoded {
		return s.raw, nil
	}
	h, err := wire.ReadHead(s.value, 0)
	if err != nil {
		return nil, o.u.codec.decodeError(err, o.u.client)
	}
	content := h.Content.Of(s.value)
	if envelope.IsSealed(content) {
		if content, err = o.u.codec.decodeStored(content); err != nil {
			return nil, o.u.codec.decodeError(err, o.u.client)
		}
	}
	s.raw, s.isDecoded = content, true
	return content, nil
}

// appendEncoded appends a string that becomes the field at a position, compressed if a rule covers it. sealed reports
// whether the string is in an envelope.
func (o *tupleSimulator) appendEncoded(dst []byte, at int, value []byte) (out []byte, sealed bool, refused *refusal) {
	var rule *policy.Rule
	if !o.u.spaces.disabled {
		rule = o.u.space.at(at).rule(len(value))
	}
	if rule == nil {
		if !envelope.IsSealed(value) {
			return msgp.AppendStringFromBytes(dst, value), false, nil
		}
		if why := o.u.space.touchedAt(at); why != "" {
			return dst, false, unsupported("magic", fmt.Sprintf("values that begin like its envelopes in field %d of space %s: %s", at+1, o.u.space.Name, why))
		}
	}
	stored, sealed := o.u.codec.encode(nil, value, rule, o.u.r.login)
	defer memory.PutBuffer(stored)
	return msgp.AppendStringFromBytes(dst, stored), sealed, nil
}

// decodeMoved appends an assignment of the decompressed value for each compressed value that was moved to a field of an
// index or a constraint.
func (o *tupleSimulator) decodeMoved() *refusal {
	if !o.moved {
		return nil
	}
	for at := range o.fields {
		why := o.u.space.touchedAt(at)
		h, err := wire.ReadHead(o.fields[at].value, 0)
		if why == "" || err != nil || h.Kind != wire.String && h.Kind != wire.Binary || !o.fields[at].sealed(h) {
			continue
		}
		raw, refused := o.decode(at)
		if refused != nil {
			return refused
		}
		if envelope.IsSealed(raw) {
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

// splicedField describes a field that splices change.
type splicedField struct {
	at     int    // the field's position at the last splice
	last   int    // index of the last splice in tupleSimulator.pending
	raw    []byte // the value after the splices
	sealed bool   // the value is written in an envelope; set by fillPending
}

// pendingSplice is a splice in tupleSimulator.out whose offset, length and text are still missing.
type pendingSplice struct {
	outAt int // position in tupleSimulator.out at which to insert them
	field *splicedField
}

// splice appends a splice. If the field's value is known, the splice is adapted to replace the whole value by the new
// one.
func (o *tupleSimulator) splice(parts []wire.Span, at int, found bool) *refusal {
	if !found || at >= len(o.fields) {
		o.appendOperation(parts)
		return nil
	}
	c, ok := o.parseSpliceArgs(parts)
	if !ok || !o.u.acceptsSplice(o.fields[at].value, 0) {
		o.appendOperation(parts)
		return nil // the server refuses it
	}
	raw, refused := o.decode(at)
	if refused != nil {
		return refused
	}
	o.out = msgp.AppendArrayHeader(o.out, 5)
	o.out = append(o.out, parts[0].Of(o.b)...)
	o.out = o.appendNumber(o.out, parts[1].Of(o.b))
	from, to, ok := c.cutRange(len(raw))
	before := o.fields[at].spliced
	if before != nil && !o.u.acceptsSeveral() {
		if o.u.server == (schema.Version{}) {
			return unsupported("splice", "several splices of a field that may be compressed, on a server that does not report its version")
		}
		ok = false // the server refuses several operations on a field
	}
	if !ok { // the server has to refuse the splice: this offset is out of bounds for any value
		o.out = msgp.AppendInt64(o.out, -math.MaxInt32)
		o.out = msgp.AppendInt64(o.out, 0)
		o.out = msgp.AppendString(o.out, "")
		return nil
	}
	if before == nil {
		raw = slices.Clone(raw) // raw may be part of the tuple
	}
	o.setSpliced(at, slices.Replace(raw, from, to, c.paste...))
	return nil
}

// spliceArgs holds the arguments of a splice.
type spliceArgs struct {
	offset int64 // from 0, or negative from the end
	length int64
	paste  []byte
}

// parseSpliceArgs reads the arguments of a splice. ok is false if the server would refuse them.
func (o *tupleSimulator) parseSpliceArgs(parts []wire.Span) (c spliceArgs, ok bool) {
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
	if !ok1 || !ok2 || !o.u.acceptsSplice(b, parts[4].At) || !is32(c.offset) || !is32(c.length) {
		return c, false
	}
	if c.offset >= 0 {
		c.offset -= o.u.base
		return c, c.offset >= 0
	}
	return c, true
}

func is32(n int64) bool { return n >= math.MinInt32 && n <= math.MaxInt32 }

// cutRange returns the range of bytes that a splice cuts out of a value of n bytes, by the server's rules: a negative
// offset counts from the end, where -1 is behind the last byte. A negative length is the number of bytes to leave at
// the end. ok is false if the offset is before the first byte.
func (c *spliceArgs) cutRange(n int) (from, to int, ok bool) {
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

// setSpliced records the value of a field after a splice, whose head is at the end of out.
func (o *tupleSimulator) setSpliced(at int, value []byte) {
	s := &o.fields[at]
	if s.spliced == nil {
		s.spliced = &splicedField{}
	}
	s.raw, s.isDecoded = value, true
	s.spliced.at, s.spliced.last, s.spliced.raw = at, len(o.pending), value
	o.pending = append(o.pending, pendingSplice{len(o.out), s.spliced})
}

// fillPending inserts the missing offsets, lengths and texts of the splices. The last splice of a field replaces the
// whole value. The others are made to do nothing.
func (o *tupleSimulator) fillPending() (refused *refusal) {
	if len(o.pending) == 0 {
		return nil
	}
	list, from := o.out, 0
	defer memory.PutBuffer(list)
	o.out = memory.GetBuffer(len(list) + len(o.pending[len(o.pending)-1].field.raw))
	for i, p := range o.pending {
		o.out = append(o.out, list[from:p.outAt]...)
		from = p.outAt
		o.out = msgp.AppendInt64(o.out, 1)
		if p.field.last != i {
			o.out = msgp.AppendString(msgp.AppendInt64(o.out, 0), "")
			continue
		}
		o.out = msgp.AppendInt64(o.out, math.MaxInt32)
		if o.out, p.field.sealed, refused = o.appendEncoded(o.out, p.field.at, p.field.raw); refused != nil {
			return refused
		}
	}
	o.out = append(o.out, list[from:]...)
	return nil
}

// sealed reports whether the field will hold an envelope. h is the head of s.value.
func (s *tupleField) sealed(h wire.Head) bool {
	if s.spliced != nil {
		return s.spliced.sealed
	}
	return envelope.IsSealed(h.Content.Of(s.value))
}
