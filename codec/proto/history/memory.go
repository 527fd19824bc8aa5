package history

import "unsafe"

// Bytes estimates the memory that a writer holds between messages, for a caller that limits that of all
// sessions.
func (w *Writer) Bytes() int {
	return w.keeps() + w.found.keeps() + w.foundRecords.keeps() + 8*cap(w.open) + cap(w.coder.out) + cap(w.text) + 8*cap(w.fields) + 4*cap(w.counts)
}

// Bytes estimates the memory that a reader holds between messages.
func (r *Reader) Bytes() int { return r.keeps() + cap(r.scratch) + 8*cap(r.parts) }

func (m *memo[T]) keeps() int { return len(m.buckets) * int(unsafe.Sizeof(bucket[T]{})) }

func (m *model) keeps() int {
	const perShape = int(unsafe.Sizeof(shape{})) + 2
	n := m.store.keeps() + m.guessed.keeps() + m.listed.keeps() + m.series.keeps() + m.recs.keeps() + 8*cap(m.bases) + 4*cap(m.chain)
	n += cap(m.shapes)*perShape + cap(m.runs)*int(unsafe.Sizeof(run{})) + cap(m.nodes)*int(unsafe.Sizeof(node{}))
	for i := range m.nodes {
		n += m.nodes[i].keeps()
	}
	return n
}

func (x *node) keeps() (n int) {
	all := []*sizes{x.counts}
	if x.numbers != nil {
		n += int(unsafe.Sizeof(numbers{}))
		all = append(all, x.numbers.sizes[:]...)
	}
	if x.forms != nil {
		n += int(unsafe.Sizeof(forms{})) + 4*cap(x.blocks)
		all = append(all, x.lengths, x.places, x.blockPlaces, x.records.places)
	}
	for _, s := range all {
		if s != nil {
			n += int(unsafe.Sizeof(sizes{}))
		}
	}
	return n
}

// keeps counts values at twice their length, as their buffers may be that large, and blocks as if all their
// values were live.
func (s *store) keeps() int {
	const perKey = 40 // of a map
	n := cap(s.values)*int(unsafe.Sizeof(value{})) + 2*s.bytes + 4*cap(s.ofValues.free) + 8*len(s.values)
	n += cap(s.blocks)*int(unsafe.Sizeof(block{})) + len(s.byKey)*perKey
	return n + cap(s.lists)*int(unsafe.Sizeof(list{})) + 8*s.members
}

func (s *records) keeps() int {
	return cap(s.all)*int(unsafe.Sizeof(record{})) + s.bytes + 4*cap(s.free) + s.starts.keeps()
}
