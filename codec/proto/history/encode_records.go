package history

import (
	"encoding/binary"

	"github.com/cinch-layer/cinch/codec/proto/internal/pbwire"
)

// element codes an element of a run: by a record if there is one, or in full.
func (e *encoder) element(r run, f pbwire.Field, depth int, h here) (pure bool) {
	if !mayBeRecord(r, depth) {
		_, pure = e.inFull(r.node, f, depth, h, nil)
		return pure
	}
	done, start := e.byRecord(r.node, h.base, f, depth)
	if done {
		return false
	}
	bases := len(e.bases)
	if _, pure = e.inFull(r.node, f, depth, h, nil); !pure {
		if id := makeRecord(&e.model, r.node, e.src[f.From():f.To()], h.base, bases); id != 0 {
			if start == 0 {
				start = e.startOf(f, h.base)
			}
			e.foundRecords.put(start, id)
		}
	}
	e.bases = e.bases[:bases]
	return pure
}

// byRecord codes a message by a record of its node. If there is none, it returns false, and the result of startOf if
// that was computed.
func (e *encoder) byRecord(n uint16, base uint32, f pbwire.Field, depth int) (done bool, start uint32) {
	a := &e.nodes[n].records
	if !a.made {
		return false, 0
	}
	open := len(e.open)
	g := e.recs.guess(a, n, base)
	if g != 0 && e.flag(&a.hits[a.was], e.fits(g, f, depth)) {
		e.recs.cameAgain(a, g, true)
		e.opened(g, open, depth)
		e.open = e.open[:open]
		return true, 0
	}
	start = e.startOf(f, base)
	id := e.findRecord(n, base, f, start, g, depth)
	if !e.flag(&a.named[a.was], id != 0) {
		return false, start
	}
	e.number(sizesOf(&a.places), 0, pbwire.Zigzag(uint64(id)-uint64(a.last)))
	e.recs.cameAgain(a, id, false)
	e.opened(id, open, depth)
	e.open = e.open[:open]
	return true, 0
}

// startOf returns a hash of a message's beginning, by which its record is looked up.
func (e *encoder) startOf(f pbwire.Field, base uint32) uint32 {
	return join(firstRun(e.src[f.From():f.To()]), base)
}

// findRecord returns a record of a node that fits, other than the guessed one, or 0.
func (e *encoder) findRecord(n uint16, base uint32, f pbwire.Field, start, guess uint32, depth int) uint32 {
	p := e.foundRecords.at(start)
	if p == nil || *p == guess || !e.recs.isOf(*p, n, base) || !e.fits(*p, f, depth) {
		return 0
	}
	return *p
}

// opened codes the open parts of a record, which are on the stack from open on. The record is pinned
// meanwhile: its runs may make other records.
func (e *encoder) opened(id uint32, open, depth int) {
	r := e.recs.pin(id)
	steps, slots := r.steps, r.slots
	for i := range steps {
		switch s := &steps[i]; s.kind {
		case stepNumber:
			e.codeKnown(s.node, &slots[0], e.open[open])
			open, slots = open+1, slots[1:]
		case stepRun:
			open, slots = e.openedRun(s, &slots[0], open, depth), slots[1:]
		}
	}
	e.recs.unpin(id)
}

func (e *encoder) openedRun(s *step, count *seen, open, depth int) int {
	n := int(e.open[open])
	open++
	e.fieldCount(sizesOf(&e.nodes[s.node].counts), count, n)
	for i := range n {
		h := here{base: s.base, hash: join(s.base, uint32(i))}
		e.element(run{s.node, true}, pbwire.Field(e.open[open+i]), depth+1, h)
	}
	return open + n
}

// fits reports whether a record represents a message, which must not be nested too deeply. If so it pushes the open
// parts onto the stack: numbers, and the number of fields in each run, with the fields.
func (e *encoder) fits(id uint32, f pbwire.Field, depth int) bool {
	if depth >= maxDepth {
		return false
	}
	m := matcher{src: e.src[:f.To()], open: e.open, nodes: e.nodes}
	if !m.record(&e.recs.all[id], int(f.From())) {
		return false
	}
	e.open = m.open
	return true
}

// matcher compares a message with a record.
type matcher struct {
	src   []byte
	open  []uint64
	nodes []node
}

// record reports whether the message that begins at an offset matches a record.
func (m *matcher) record(r *record, at int) bool {
	literals, src := r.literals, m.src
	var ends [maxRecordDepth + 1]int
	depth := 0
	for i := range r.steps {
		s := &r.steps[i]
		n := int(s.literal)
		if !isNext(src[at:], literals[:n]) {
			return false
		}
		at, literals = at+n, literals[n:]
		switch s.kind {
		case stepNumber:
			at = m.number(at, s.wire)
		case stepRun:
			at = m.run(at, m.nodes[s.node].tag)
		case stepOpen:
			ends[depth], at = m.end(at)
			depth++
		case stepClose:
			if depth--; ends[depth] != at {
				return false
			}
		}
		if at < 0 {
			return false
		}
	}
	return at == len(src)
}

// isNext reports whether src begins with b, which is mostly short.
func isNext(src, b []byte) bool {
	n := len(b)
	if n <= 8 && cap(b) >= 8 && len(src) >= 8 {
		return (binary.LittleEndian.Uint64(b[:8])^binary.LittleEndian.Uint64(src))<<(64-8*n) == 0
	}
	return len(src) >= n && string(src[:n]) == string(b)
}

// number reads the number at an offset. Like the other methods it returns the offset of its end, or -1 if
// there is none.
func (m *matcher) number(at int, wire uint8) int {
	if wire == pbwire.Fixed64Type && len(m.src)-at >= 8 {
		m.open = append(m.open, binary.LittleEndian.Uint64(m.src[at:]))
		return at + 8
	}
	f, end := pbwire.ReadField(m.src, at, wire)
	m.open = append(m.open, uint64(f))
	return end
}

// end returns the end of the message whose length is at an offset, and its beginning.
func (m *matcher) end(at int) (end, next int) {
	n, size := pbwire.Uvarint(m.src[at:])
	if size == 0 || n > uint64(len(m.src)-at-size) {
		return 0, -1
	}
	return at + size + int(n), at + size
}

// run reads the fields of a run, which may be empty.
func (m *matcher) run(at int, tag uint64) int {
	count := len(m.open)
	m.open = append(m.open, 0)
	size := pbwire.UvarintLen(tag)
	for first := byte(tag)&0x7f | pbwire.More(size); at < len(m.src) && m.src[at] == first; {
		if size > 1 {
			if next, _ := pbwire.Uvarint(m.src[at:]); next != tag {
				break
			}
		}
		if at = m.field(at + size); at < 0 {
			return -1
		}
	}
	m.open[count] = uint64(len(m.open) - count - 1)
	return at
}

// field reads the content after a tag.
func (m *matcher) field(at int) int {
	if at < len(m.src) && m.src[at] < 0x80 {
		f := pbwire.Content(at+1, at+1+int(m.src[at]))
		m.open = append(m.open, uint64(f))
		if end := int(f.To()); end <= len(m.src) {
			return end
		}
		return -1
	}
	f, end := pbwire.ReadField(m.src, at, pbwire.BytesType)
	m.open = append(m.open, uint64(f))
	return end
}

// firstRun returns a hash of the first run of wire type 2 in a message, or of the run's beginning; 0 if there
// is none.
func firstRun(src []byte) uint32 {
	for at := 0; at < len(src); {
		tag, size := pbwire.Uvarint(src[at:])
		if size == 0 {
			return 0
		}
		if tag&7 == pbwire.BytesType {
			return hashOf(src[at:min(pastRun(src, at, tag), at+maxRecordBytes)])
		}
		if _, at = pbwire.ReadField(src, at+size, uint8(tag&7)); at < 0 {
			return 0
		}
	}
	return 0
}
