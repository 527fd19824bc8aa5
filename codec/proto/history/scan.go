package history

import (
	"slices"

	"github.com/cinch-layer/cinch/codec/proto/internal/pbwire"
)

func (e *encoder) scan(n uint16, from, to int) (shape int, isNew, ok bool) {
	fields, counts := len(e.fields), len(e.counts)
	nodes, children := len(e.nodes), len(e.nodes[n].children)
	e.runsHere = e.runsHere[:0]
	if e.cut(n, from, to) {
		if shape, isNew, ok = e.findShape(n, e.counts[counts:]); ok {
			return shape, isNew, true
		}
	}
	e.fields, e.counts, e.nodes = e.fields[:fields], e.counts[:counts], e.nodes[:nodes]
	e.nodes[n].children = e.nodes[n].children[:children]
	return 0, false, false
}

func (e *encoder) cut(n uint16, from, to int) bool {
	src := e.src[:to]
	for at := from; at < to; {
		tag, size := pbwire.Uvarint(src[at:])
		if size == 0 || tag>>3 == 0 {
			return false
		}
		c, ok := e.child(n, tag>>3, uint8(tag&7))
		if !ok {
			return false
		}
		e.runsHere = append(e.runsHere, run{c, e.nodes[c].many})
		before := len(e.fields)
		if e.fields, at = pbwire.AppendRun(e.fields, src, at, tag, size); at < 0 || len(e.fields) > pbwire.MaxFields {
			return false
		}
		e.counts = append(e.counts, uint32(len(e.fields)-before))
	}
	return true
}

func (e *encoder) findShape(n uint16, counts []uint32) (shape int, isNew, ok bool) {
	hash := uint32(2166136261)
	for i := range e.runsHere {
		r := &e.runsHere[i]
		x := uint32(r.node) << 1
		if r.many = r.many || counts[i] > 1; r.many {
			x |= 1
			e.nodes[r.node].many = true
		}
		hash = (hash ^ x) * 16777619
	}
	shapes := e.nodes[n].shapes
	for i, id := range shapes {
		if s := e.shapes[id]; s.hash == hash && slices.Equal(e.runs[s.from:s.to], e.runsHere) {
			return i, false, true
		}
	}
	if len(shapes) >= maxNodeShapes || len(e.shapes) >= e.limits.shapes || len(e.runs)+len(e.runsHere) > e.limits.runs {
		return 0, false, false
	}
	from := len(e.runs)
	e.runs = append(e.runs, e.runsHere...)
	e.addShape(n, from, hash)
	return len(shapes), true, true
}
