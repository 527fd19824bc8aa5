package proto

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/cinch-layer/cinch/codec/proto/internal/pbwire"
)

// columnEncoder is the encoder's model with an index of values, and the columns that it fills.
type columnEncoder struct {
	model
	src      []byte
	fields   []pbwire.Field // a stack
	counts   []uint32       // of the fields in each run, a stack
	runsHere []run          // of the message being scanned
	found    []uint32       // index of values: upper half of the hash, and number
	mask     uint32
	named    int // number of values that were named
	new      int // number of values given in full, except in the outermost message
	defs     []byte
	cols     [][columns][]byte
}

// run splits a message into columns. It returns false if the message is not protobuf, or not supported.
func (e *columnEncoder) run(src []byte) bool {
	e.reset(len(src))
	e.src, e.fields, e.counts, e.defs = src, e.fields[:0], e.counts[:0], e.defs[:0]
	log := min(max(bits.Len(uint(len(src))/32), 6), 16)
	e.found, e.mask = cleared(e.found, 1<<log), 1<<log-1
	e.named, e.new = 0, 0
	e.emptyColumns()
	e.addColumns()
	_, ok := e.message(0, 0, len(src), 0, 0)
	e.src = nil
	return ok
}

// emptyColumns keeps the buffers of the last message's columns, unless different messages have made too many
// columns long.
func (e *columnEncoder) emptyColumns() {
	room := 0
	for i := range e.cols {
		for j, c := range e.cols[i] {
			room += cap(c)
			e.cols[i][j] = c[:0]
		}
	}
	if room > 2*keptBytes {
		e.cols = nil
	}
}

// addColumns adds columns for all nodes.
func (e *columnEncoder) addColumns() {
	for len(e.cols) < len(e.nodes) {
		e.cols = append(e.cols, [columns][]byte{})
	}
}

func (e *columnEncoder) put(n uint16, col int, v uint64) {
	c := &e.cols[n][col]
	if v < 0x80 {
		*c = append(*c, byte(v))
		return
	}
	*c = binary.AppendUvarint(*c, v)
}

// message codes the content of a message of node n, and returns its first value as a key. If known is not 0
// the decoder knows that value already. Unless it returns true nothing has been coded.
func (e *columnEncoder) message(n uint16, from, to, depth int, known uint32) (key uint32, ok bool) {
	if depth >= maxDepth {
		return 0, false
	}
	fields, counts := len(e.fields), len(e.counts)
	number, isNew, ok := e.scan(n, from, to)
	if !ok {
		return 0, false
	}
	s := e.shapes[e.nodes[n].shapes[number]]
	e.beginShape(n, number, isNew)
	key = e.runsOf(s, fields, counts, depth, known)
	e.fields, e.counts = e.fields[:fields], e.counts[:counts]
	return key, true
}

// beginShape codes the shape of the following fields.
func (e *columnEncoder) beginShape(n uint16, number int, isNew bool) {
	if !isNew {
		e.put(n, colShapes, uint64(number+1)<<1)
		return
	}
	e.addColumns()
	e.put(n, colShapes, 0)
	e.define(e.shapes[e.nodes[n].shapes[number]])
}

func (e *columnEncoder) define(s shape) {
	e.defs = binary.AppendUvarint(e.defs, uint64(s.to-s.from))
	for _, r := range e.runs[s.from:s.to] {
		x := &e.nodes[r.node]
		d := uint64(x.field)<<4 | uint64(x.wire)<<1
		if r.many {
			d |= 1
		}
		e.defs = binary.AppendUvarint(e.defs, d)
	}
}

// runsOf codes the fields of a message, which are on the stack from at on, and their counts.
func (e *columnEncoder) runsOf(s shape, at, counts, depth int, known uint32) (key uint32) {
	var last uint32
	for i := range s.to - s.from {
		r, count := e.runs[s.from+i], e.counts[counts+int(i)]
		if r.many {
			e.put(r.node, colCounts, uint64(count))
		}
		to := at + int(count)
		if e.nodes[r.node].wire == pbwire.BytesType {
			var first uint32
			if first, last = e.valuesOf(r.node, at, to, depth, last, known); i == 0 {
				key = first
			}
			at = to
		}
		for ; at < to; at++ {
			e.number(r.node, uint64(e.fields[at]))
		}
		known = 0
	}
	return key
}

// valuesOf codes a run of values of node n. If known is not 0 the decoder knows the first one already. valuesOf returns
// the first one, and the last one that was kept in this message.
func (e *columnEncoder) valuesOf(n uint16, at, to, depth int, last, known uint32) (first, _ uint32) {
	a, b := e.nodes[n].first, last
	from := at
	if known != 0 {
		e.nodes[n].first, first, last, a = known, known, known, known
		at++
	}
	for ; at < to && !e.nodes[n].off; at++ {
		x, f := &e.nodes[n], e.fields[at]
		slot := e.slot(n, a, b)
		v := uint32(e.table[slot])
		s := e.spans[v]
		if s.node != n {
			v = e.guess(n, a, b, at == from)
			s = e.spans[v]
		}
		if v != 0 && uint32(s.len) == f.To()-f.From() && string(e.src[s.off:s.off+uint32(s.len)]) == string(e.src[f.From():f.To()]) {
			x.hits++
			x.credit += metCredit
			e.spans[v].off = f.From() // a recent position, more likely in the CPU's cache
		} else {
			v = e.value(n, f, depth, v)
			e.learn(n, slot, v, a, b, at == from)
			b = v
		}
		if at == from {
			e.nodes[n].first, first = v, v
		}
		if v != 0 {
			last = v
		}
		a = v
	}
	if depth > 0 {
		e.new += to - at
	}
	for ; at < to; at++ {
		e.inFull(n, e.fields[at], depth, 0)
	}
	return first, last
}

// value codes a value that was not guessed, and returns its number, or 0 if it can't be named later.
func (e *columnEncoder) value(n uint16, f pbwire.Field, depth int, guess uint32) (id uint32) {
	src := e.src[f.From():f.To()]
	x := &e.nodes[n]
	hits := uint64(x.hits) << opBits
	x.hits = 0
	var hash uint32
	var entry *uint32
	if len(src) <= maxValueBytes {
		hash = hashOf(src)
		if id, entry = e.find(hash, src); id != 0 {
			x.credit += metCredit
			e.named++
			return e.name(n, f, id, guess, hits, hash, entry)
		}
	}
	if depth > 0 {
		e.new++
	}
	key := e.fresh(n, f, depth, guess, hits)
	e.nodes[n].missed(len(src))
	return e.note(n, f, key, hash, entry)
}

// name codes a value that is known, and returns the number by which it is named from now on.
func (e *columnEncoder) name(n uint16, f pbwire.Field, id, guess uint32, hits uint64, hash uint32, entry *uint32) uint32 {
	known := &e.bonds[id]
	switch m := e.spans[id].node; {
	case m != n:
		e.put(n, colOps, hits|opNamedOtherwise)
		e.nameAcross(n, m, id)
		return e.note(n, f, 0, hash, entry)
	case known.key == e.bonds[guess].key:
		e.put(n, colOps, hits|opNamed)
	case known.key == 0:
		e.put(n, colOps, hits|opNamedOtherwise)
		e.put(n, colRefs, refOwn)
	default:
		e.put(n, colOps, hits|opNamedOtherwise)
		e.put(n, colRefs, uint64(e.bonds[known.key].at)+refKeys)
	}
	e.put(n, colRefs, uint64(known.at))
	e.spans[id].off = f.From()
	return id
}

// nameAcross codes a value of node m for node n.
func (e *columnEncoder) nameAcross(n, m uint16, id uint32) {
	if x := &e.nodes[n]; x.other == m && e.bonds[id].key == 0 {
		e.put(n, colRefs, refOther)
		e.put(n, colRefs, uint64(len(e.lists[e.nodes[m].list]))-uint64(e.bonds[id].at))
	} else {
		e.put(n, colRefs, refAny)
		e.put(n, colRefs, uint64(len(e.spans))-uint64(id))
	}
	e.crossed(n, m)
}

// fresh codes an unknown value in full, and returns its key.
func (e *columnEncoder) fresh(n uint16, f pbwire.Field, depth int, guess uint32, hits uint64) uint32 {
	known := uint32(e.bonds[guess].key)
	if known != 0 && e.beginsWith(f, known) {
		e.put(n, colOps, hits|opNewKeyKnown)
	} else {
		known = 0
		e.put(n, colOps, hits) // opNew
	}
	return e.inFull(n, f, depth, known)
}

// beginsWith reports whether a value's first field is the key.
func (e *columnEncoder) beginsWith(f pbwire.Field, key uint32) bool {
	s := e.spans[key]
	src := e.src[f.From():f.To()]
	tag, size := pbwire.Uvarint(src)
	if size == 0 || tag != uint64(e.nodes[s.node].field)<<3|pbwire.BytesType {
		return false
	}
	n, more := pbwire.Uvarint(src[size:])
	return more != 0 && n == uint64(s.len) && bytes.HasPrefix(src[size+more:], e.src[s.off:s.off+uint32(s.len)])
}

// inFull codes the content of a value and returns its key.
func (e *columnEncoder) inFull(n uint16, f pbwire.Field, depth int, known uint32) (key uint32) {
	src := e.src[f.From():f.To()]
	x := &e.nodes[n]
	if known != 0 || x.parsed*4 >= x.opaque && pbwire.MaybeMessage(src) {
		if key, ok := e.message(n, int(f.From()), int(f.To()), depth+1, known); ok {
			e.nodes[n].parsed++
			return key
		}
	}
	e.nodes[n].opaque++
	if known == 0 && e.packed(n, f, depth+1) {
		return 0
	}
	e.put(n, colShapes, uint64(len(src))<<1|1)
	text := &e.cols[n][colText]
	*text = append(*text, src...)
	return 0
}

// note keeps a value and indexes it. entry is the empty entry that was found for it, or nil.
func (e *columnEncoder) note(n uint16, f pbwire.Field, key, hash uint32, entry *uint32) uint32 {
	src := e.src[f.From():f.To()]
	id := e.keep(n, int(f.From()), len(src), key)
	if id == 0 {
		return 0
	}
	if entry != nil && *entry != 0 { // taken meanwhile by a nested value, or by another node's value
		_, entry = e.find(hash, src)
	}
	if entry != nil {
		*entry = hash&^0xffff | id
	}
	return id
}

// probes limits the search for a value.
const probes = 16

// find returns the value with these bytes, or 0, and the index entry for it, nil if there is no room.
func (e *columnEncoder) find(hash uint32, b []byte) (id uint32, entry *uint32) {
	for i := range uint32(probes) {
		entry = &e.found[(hash+i)&e.mask]
		if *entry == 0 {
			return 0, entry
		}
		if id := *entry & 0xffff; *entry^id == hash&^0xffff && e.is(id, b) {
			return id, entry
		}
	}
	return 0, nil
}

func (e *columnEncoder) is(id uint32, b []byte) bool {
	s := e.spans[id]
	return string(e.src[s.off:s.off+uint32(s.len)]) == string(b)
}

// hashOf hashes all of a short value, and 32 bytes from four places of a longer one.
func hashOf(b []byte) uint32 {
	n := len(b)
	h := uint64(n) * 0x9E3779B97F4A7C15
	if n >= 8 {
		le := binary.LittleEndian
		h = mix(h^le.Uint64(b), 0xA0761D6478BD642F^le.Uint64(b[n-8:]))
		if n > 16 {
			mid := n/2 - 8
			h ^= mix(le.Uint64(b[mid:])^0x8EBC6AF09C88C6E3, 0x589965CC75374CC3^le.Uint64(b[mid+8:]))
		}
	} else {
		var rest uint64
		for _, c := range b {
			rest = rest<<8 | uint64(c)
		}
		h = mix(h^rest, 0xE7037ED1A0B428DB)
	}
	return uint32(h ^ h>>32)
}

func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// number codes a number of node n.
func (e *columnEncoder) number(n uint16, v uint64) {
	x := &e.nodes[n]
	way, wide := x.way()
	digits, whole := 0, uint64(0)
	if x.wire == pbwire.Fixed64Type {
		digits, whole = decimal(v)
	}
	u, kind := v, byte(0)
	switch way {
	case wayOwn:
		if u = pbwire.Zigzag(v - x.prev); x.wire == pbwire.Fixed32Type {
			u = uint64(zigzag32(uint32(v) - uint32(x.prev)))
		}
	case wayLast:
		u = pbwire.Zigzag(v - e.last[x.wire])
	case wayDecimal:
		if kind = byte(digits); digits != pbwire.NotDecimal {
			u = whole
		}
	}
	e.count(x, v, decimalBits(digits, whole))
	switch {
	case wide || kind == pbwire.NotDecimal:
		low := lowBytes(u)
		c := &e.cols[n]
		c[colKinds] = append(c[colKinds], kind|byte(low)<<kindBits)
		c[colNumbers] = append(c[colNumbers], byte(u>>(8*low)))
		c[colNoise] = binary.LittleEndian.AppendUint64(c[colNoise], u)
		c[colNoise] = c[colNoise][:len(c[colNoise])-8+low]
		return
	case way == wayDecimal:
		e.cols[n][colKinds] = append(e.cols[n][colKinds], kind)
	}
	e.put(n, colNumbers, u)
}
