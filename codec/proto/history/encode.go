package history

import (
	"bytes"

	"github.com/cinch-layer/cinch/codec/proto/internal/pbwire"
)

// encoder is the writer's model with an index of values.
type encoder struct {
	model
	src          []byte
	text         []byte
	fields       []pbwire.Field // a stack
	counts       []uint32       // of the fields in each run, a stack
	runsHere     []run          // of the message being scanned
	found        memo[uint32]
	foundRecords memo[uint32]
	open         []uint64 // open parts of records, a stack
}

func (e *encoder) begin() {
	e.reset()
	e.found = newMemo[uint32](e.limits.values / 2)
	e.foundRecords = newMemo[uint32](e.limits.values / 2)
}

// message codes src. It returns false, without any effect, if that is not a message.
func (e *encoder) message(src []byte) bool {
	e.src, e.text = src, e.text[:0]
	e.fields, e.counts, e.bases, e.open = e.fields[:0], e.counts[:0], e.bases[:0], e.open[:0]
	number, isNew, ok := e.scan(0, 0, len(src))
	if !ok {
		return false
	}
	e.beginWrite()
	e.beginMessage()
	e.content(0, number, isNew, 0, 0, 0, here{}, nil)
	e.src = nil
	return true
}

// shape codes the shape of the following fields.
func (e *encoder) shape(n uint16, number int, isNew bool) {
	e.codeShape(n, number)
	if !isNew {
		return
	}
	s := e.shapes[e.nodes[n].shapes[number]]
	e.number(e.defs, 0, uint64(s.to-s.from))
	for _, r := range e.runs[s.from:s.to] {
		x := &e.nodes[r.node]
		d := uint64(x.field)<<4 | uint64(x.wire)<<1
		if r.many {
			d |= 1
		}
		e.number(e.defs, 1, d)
	}
}

// content codes the fields of a message, which are on the stacks from fields and counts on: first the runs of
// values that may be named, which distinguish messages, then the others. It returns the message's first value
// as a key, and whether it contains no new numbers.
func (e *encoder) content(n uint16, number int, isNew bool, fields, counts, depth int, h here, known *prefix) (key uint32, pure bool) {
	e.shape(n, number, isNew)
	s := e.shapes[e.nodes[n].shapes[number]]
	named, key, pure := e.namedRuns(s, fields, counts, depth, &h, known)
	at := fields
	for i := range int(s.to - s.from) {
		r, to := e.runs[s.from+uint32(i)], at+int(e.counts[counts+i])
		if i >= maxNamedRuns || named>>i&1 == 0 {
			pure = e.others(r, at, to, depth, &h) && pure
		}
		at = to
	}
	return key, pure
}

// namedRuns codes the runs whose values may be named, and returns which ones these are, as bits by index.
func (e *encoder) namedRuns(s shape, at, counts, depth int, h *here, known *prefix) (named uint64, key uint32, pure bool) {
	pure = true
	last := uint32(0)
	for i := range int(s.to - s.from) {
		r, to := e.runs[s.from+uint32(i)], at+int(e.counts[counts+i])
		if e.mayBeNamed(r, i, known) {
			named |= 1 << i
			first, end, p := e.valuesOf(r, at, to, depth, last, h, known)
			if i == 0 {
				key = first
			}
			last, pure, known = end, pure && p, nil
		}
		at = to
	}
	return named, key, pure
}

// others codes a run of numbers, or of values that are not named.
func (e *encoder) others(r run, at, to, depth int, h *here) (pure bool) {
	series := join(h.hash, uint32(r.node))
	if r.many {
		e.codeCount(r.node, to-at)
	}
	if e.nodes[r.node].wire != pbwire.BytesType {
		for i, f := range e.fields[at:to] {
			e.codeNumber(r.node, seriesAt(series, i), uint64(f))
		}
		return false
	}
	pure = true
	e.bases = append(e.bases, runBase{join(h.hash, uint32(r.node)), r.node})
	for i := range to - at {
		p := e.element(r, e.fields[at+i], depth, inside(h.hash, r.node, i))
		pure = pure && p
	}
	return pure
}

func (e *encoder) is(id uint32, f pbwire.Field) bool {
	v := &e.values[id]
	return len(v.data) == int(f.To()-f.From()) && string(v.data) == string(e.src[f.From():f.To()])
}

func (e *encoder) isList(id uint32, at, to int) bool {
	members := e.lists[id].members
	if len(members) != to-at {
		return false
	}
	for i, id := range members {
		if !e.is(id, e.fields[at+i]) {
			return false
		}
	}
	return true
}

// valuesOf codes a run of values that may be named. known is the first one if the reader knows it already, or nil.
// valuesOf returns the first one as a key, the last one, and whether all are pure.
func (e *encoder) valuesOf(r run, at, to, depth int, last uint32, h *here, known *prefix) (key, _ uint32, pure bool) {
	n := r.node
	if r.many && known == nil {
		if l := e.codeList(n, h.hash, func(l uint32) bool { return e.isList(l, at, to) }); l != 0 {
			key, last = e.takeList(l, h)
			return key, last, true
		}
	}
	if r.many {
		e.codeCount(n, to-at)
	}
	c := e.beginChain(n, h.hash, to-at, last)
	if known != nil {
		c.known(known)
	}
	pure = e.chained(&c, at, to, depth)
	if c.left = to - at - c.count; c.left > 0 {
		e.bases = append(e.bases, runBase{join(c.here, uint32(n)), n})
	}
	for ; c.count < to-at; c.count++ {
		e.element(r, e.fields[at+c.count], depth, inside(c.here, n, c.count))
	}
	e.endChain(&c, r, h, pure)
	return c.key, c.last, pure && c.left == 0
}

// chained codes the values of a run, as long as they are looked up.
func (e *encoder) chained(c *chain, at, to, depth int) (pure bool) {
	pure = true
	for x := e.nodes[c.n].forms; c.count < to-at && x.credit > 0; {
		f := e.fields[at+c.count]
		s := c.spot()
		guessed := e.codeGuess(&s, func(v uint32) bool { return e.is(v, f) })
		v := s.guess
		if !guessed {
			var p bool
			v, p = e.value(&s, f, depth, inside(c.here, c.n, c.count))
			pure = pure && p
			e.learn(&s, v)
		}
		c.add(v, guessed)
	}
	return pure
}

// value codes a value that was not guessed. It returns false if the value is new and contains numbers.
func (e *encoder) value(s *spot, f pbwire.Field, depth int, h here) (id uint32, pure bool) {
	src, x := e.src[f.From():f.To()], e.nodes[s.n].forms
	var hash uint32
	if len(src) <= maxValueBytes {
		hash = hashOf(src)
		if id = e.find(s.n, hash, src); id != 0 {
			x.met()
			return e.name(s, id), true
		}
	}
	op, known := opNew, (*prefix)(nil)
	if g := s.guess; g != 0 && e.keyOf(g) != 0 {
		if p := e.prefixOf(g); bytes.HasPrefix(src, p.field) {
			op, known = opNewKeyKnown, &p
		}
	}
	e.codeOp(x, op, s.guess)
	key, pure := e.inFull(s.n, f, depth, h, known)
	x.missed(pure)
	if len(src) > maxValueBytes {
		return 0, pure
	}
	id = e.keep(s.n, src, hash, key)
	e.found.add(hash, id)
	return id, pure
}

// find returns a value with these bytes, preferably of this node, or 0.
func (e *encoder) find(n uint16, hash uint32, b []byte) (id uint32) {
	bucket := &e.found.buckets[hash&uint32(len(e.found.buckets)-1)]
	for i, h := range &bucket.hashes {
		if h != hash|taken {
			continue
		}
		if v := &e.values[bucket.what[i]]; v.live && string(v.data) == string(b) {
			if id = bucket.what[i]; v.node == n {
				break
			}
		}
	}
	return id
}

// name codes a known value, and returns the number by which it is named from now on.
func (e *encoder) name(s *spot, id uint32) uint32 {
	x, v := e.nodes[s.n].forms, &e.values[id]
	v.used = true
	b := &e.blocks[v.block]
	g := s.guess
	switch {
	case v.node != s.n:
		e.codeOp(x, opAcross, g)
		e.codeOther(x, v.node)
		e.number(sizesOf(&x.blockPlaces), 1, uint64(b.at))
		e.number(sizesOf(&x.places), 0, uint64(len(b.members)-1)-uint64(v.at))
		id = e.across(s.n, id)
		e.found.add(e.values[id].hash, id)
		return id
	case g != 0 && e.values[g].block == v.block:
		e.codeOp(x, opNamed, g)
	default:
		e.codeOp(x, opNamedElsewhere, g)
		e.number(sizesOf(&x.blockPlaces), 0, uint64(b.at))
	}
	e.below(v.at, uint32(len(b.members)))
	return id
}

// inFull codes the content of a value. It returns the content's first value as a key, and whether it contains
// no new numbers.
func (e *encoder) inFull(n uint16, f pbwire.Field, depth int, h here, known *prefix) (key uint32, pure bool) {
	src, x := e.src[f.From():f.To()], e.nodes[n].forms
	if known != nil || x.parsed*4 >= x.opaque && pbwire.MaybeMessage(src) {
		if key, pure, ok := e.nested(n, f, depth+1, h, known); ok {
			x.parsed++
			return key, pure
		}
	}
	x.opaque++
	if known == nil && e.packed(n, src, depth+1, h) {
		return 0, false
	}
	e.codeText(x, true)
	e.number(sizesOf(&x.lengths), 0, uint64(len(src)))
	e.text = append(e.text, src...)
	return 0, true
}

// nested codes the content of a nested message. It returns false, without any effect, if it is not a message.
func (e *encoder) nested(n uint16, f pbwire.Field, depth int, h here, known *prefix) (key uint32, pure, ok bool) {
	if depth >= maxDepth {
		return 0, false, false
	}
	fields, counts := len(e.fields), len(e.counts)
	number, isNew, ok := e.scan(n, int(f.From()), int(f.To()))
	if !ok {
		return 0, false, false
	}
	e.codeText(e.nodes[n].forms, false)
	key, pure = e.content(n, number, isNew, fields, counts, depth, h, known)
	e.fields, e.counts = e.fields[:fields], e.counts[:counts]
	return key, pure, true
}

// packed codes the content of a value as numbers. It returns false, without any effect, if it does not
// consist of numbers.
func (e *encoder) packed(n uint16, src []byte, depth int, h here) bool {
	x := e.nodes[n].forms
	if depth >= maxDepth || x.unpacked >= pbwire.PackedTrials {
		return false
	}
	wire, count, ok := pbwire.PackedAs(src)
	if !ok {
		x.unpacked++
		return false
	}
	nodes, children := len(e.nodes), len(e.nodes[n].children)
	c, ok := e.child(n, 0, wire)
	if !ok {
		return false
	}
	e.runsHere = append(e.runsHere[:0], run{c, true})
	number, isNew, ok := e.findShape(n, []uint32{uint32(count)})
	if !ok {
		e.nodes, e.nodes[n].children = e.nodes[:nodes], e.nodes[n].children[:children]
		return false
	}
	e.codeText(x, false)
	e.shape(n, number, isNew)
	series := join(h.hash, uint32(c))
	e.codeCount(c, count)
	for i, at := 0, 0; at < len(src); i++ {
		var v pbwire.Field
		v, at = pbwire.ReadField(src, at, wire)
		e.codeNumber(c, seriesAt(series, i), uint64(v))
	}
	x.unpacked = 0
	return true
}
