package history

import "encoding/binary"

// element codes one of a run: by a record if there is one, or in full.
func (e *encoder) element(r run, f field, depth int, h here) (pure bool) {
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
		if id := makeRecord(&e.model, r.node, e.src[f.from():f.to()], h.base, bases); id != 0 {
			if start == 0 {
				start = e.startOf(f, h.base)
			}
			e.foundRecords.put(start, id)
		}
	}
	e.bases = e.bases[:bases]
	return pure
}

// byRecord codes a message by a record of its node. It reports false if there is none, with what startOf returns if that was
// asked.
func (e *encoder) byRecord(n uint16, base uint32, f field, depth int) (done bool, start uint32) {
	a := &e.nodes[n].again
	if !a.made {
		return false, 0
	}
	open := len(e.open)
	defer func() { e.open = e.open[:open] }()
	g := e.recs.guess(a, n, base)
	if g != 0 && e.flag(&a.hits[a.was], e.fits(g, f, depth)) {
		e.recs.cameAgain(a, g, true)
		e.opened(g, open, depth)
		return true, 0
	}
	start = e.startOf(f, base)
	id := e.findRecord(n, base, f, start, g, depth)
	if !e.flag(&a.named[a.was], id != 0) {
		return false, start
	}
	e.number(sizesOf(&a.places), 0, zigzag(uint64(id)-uint64(a.last)))
	e.recs.cameAgain(a, id, false)
	e.opened(id, open, depth)
	return true, 0
}

// startOf is a hash of how a message begins, by which its record is found again.
func (e *encoder) startOf(f field, base uint32) uint32 {
	return join(firstRun(e.src[f.from():f.to()]), base)
}

// findRecord returns a record of a node that fits, other than the one that was guessed, or 0.
func (e *encoder) findRecord(n uint16, base uint32, f field, start, guess uint32, depth int) uint32 {
	p := e.foundRecords.at(start)
	if p == nil || *p == guess || !e.recs.isOf(*p, n, base) || !e.fits(*p, f, depth) {
		return 0
	}
	return *p
}

// opened codes what a record leaves open, which lies on the stack from a place on. The record may be forgotten meanwhile.
func (e *encoder) opened(id uint32, open, depth int) {
	steps, slots := e.recs.all[id].steps, e.recs.all[id].slots
	for i := range steps {
		switch s := &steps[i]; s.kind {
		case stepNumber:
			e.codeKnown(s.node, &slots[0], e.open[open])
			open, slots = open+1, slots[1:]
		case stepRun:
			open, slots = e.openedRun(s, &slots[0], open, depth), slots[1:]
		}
	}
}

func (e *encoder) openedRun(s *step, count *seen, open, depth int) int {
	n := int(e.open[open])
	open++
	e.fieldCount(sizesOf(&e.nodes[s.node].counts), count, n)
	for i := range n {
		h := here{base: s.base, hash: join(s.base, uint32(i))}
		e.element(run{s.node, true}, field(e.open[open+i]), depth+1, h)
	}
	return open + n
}

// fits tells whether a message is one that a record gives, which may not be deeper than any other. If so what is open in it lies on the
// stack: numbers, and how many fields there are in a run, with the fields.
func (e *encoder) fits(id uint32, f field, depth int) bool {
	if depth >= maxDepth {
		return false
	}
	was := len(e.open)
	m := matcher{src: e.src[:f.to()], at: int(f.from()), open: e.open, nodes: e.nodes}
	ok := m.record(&e.recs.all[id])
	if e.open = m.open; !ok {
		e.open = e.open[:was]
	}
	return ok
}

// matcher holds a message against a record.
type matcher struct {
	src   []byte
	at    int
	open  []uint64
	nodes []node
}

func (m *matcher) record(r *record) bool {
	literals := r.literals
	var ends [maxRecordDepth + 1]int
	depth := 0
	for i := range r.steps {
		s := &r.steps[i]
		n := int(s.literal)
		if !m.literal(literals[:n]) {
			return false
		}
		literals = literals[n:]
		ok := true
		switch s.kind {
		case stepNumber:
			ok = m.number(s.wire)
		case stepRun:
			ok = m.run(m.nodes[s.node].tag)
		case stepOpen:
			ends[depth], ok = m.end()
			depth++
		case stepClose:
			depth--
			ok = ends[depth] == m.at
		}
		if !ok {
			return false
		}
	}
	return m.at == len(m.src)
}

func (m *matcher) literal(b []byte) bool {
	rest := m.src[m.at:]
	if n := len(b); n <= 8 && cap(b) >= 8 && len(rest) >= 8 {
		m.at += n
		return (binary.LittleEndian.Uint64(b[:8])^binary.LittleEndian.Uint64(rest))<<(64-8*n) == 0
	}
	if len(rest) < len(b) || string(rest[:len(b)]) != string(b) {
		return false
	}
	m.at += len(b)
	return true
}

func (m *matcher) number(wire uint8) bool {
	if wire == wire64 && len(m.src)-m.at >= 8 {
		m.open = append(m.open, binary.LittleEndian.Uint64(m.src[m.at:]))
		m.at += 8
		return true
	}
	f, end := readField(m.src, m.at, wire)
	m.at = end
	m.open = append(m.open, uint64(f))
	return end >= 0
}

// end is where the message ends whose length is here.
func (m *matcher) end() (int, bool) {
	n, size := uvarint(m.src[m.at:])
	m.at += size
	return m.at + int(n), size > 0 && n <= uint64(len(m.src)-m.at)
}

// run takes the fields of a run, none too.
func (m *matcher) run(tag uint64) bool {
	count := len(m.open)
	m.open = append(m.open, 0)
	size := sizeOf(tag)
	for first := byte(tag)&0x7f | more(size); m.at < len(m.src) && m.src[m.at] == first; {
		if size > 1 {
			if next, _ := uvarint(m.src[m.at:]); next != tag {
				break
			}
		}
		if !m.field(m.at + size) {
			return false
		}
	}
	m.open[count] = uint64(len(m.open) - count - 1)
	return true
}

// field takes what is behind a tag.
func (m *matcher) field(at int) bool {
	if at < len(m.src) && m.src[at] < 0x80 {
		m.at = at + 1 + int(m.src[at])
		m.open = append(m.open, uint64(contentAt(at+1, m.at)))
		return m.at <= len(m.src)
	}
	f, end := readField(m.src, at, wireBytes)
	m.at = end
	m.open = append(m.open, uint64(f))
	return end >= 0
}

// firstRun is a hash of the first run of wire type 2 in a message, or of its beginning; 0 if there is none.
func firstRun(src []byte) uint32 {
	for at := 0; at < len(src); {
		tag, size := uvarint(src[at:])
		if size == 0 {
			return 0
		}
		if tag&7 == wireBytes {
			return hashOf(src[at:min(pastRun(src, at, tag), at+maxRecordBytes)])
		}
		if _, at = readField(src, at+size, uint8(tag&7)); at < 0 {
			return 0
		}
	}
	return 0
}
