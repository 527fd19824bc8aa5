package proto

import (
	"slices"

	"github.com/cinch-layer/cinch/codec/proto/internal/pbwire"
)

// scan splits the content of a message of node n into fields. It appends them to e.fields, and the number of
// fields in each run to e.counts. It returns their shape's number in the node, and whether the shape is new.
// It returns false, without any effect, if the content does not consist of fields in the shortest form, or of
// too many.
func (e *columnEncoder) scan(n uint16, from, to int) (shape int, isNew, ok bool) {
	fields, counts := len(e.fields), len(e.counts)
	nodes, lists, children := len(e.nodes), len(e.lists), len(e.nodes[n].children)
	e.runsHere = e.runsHere[:0]
	if e.cut(n, from, to) {
		if shape, isNew, ok = e.findShape(n, e.counts[counts:]); ok {
			return shape, isNew, true
		}
	}
	e.fields, e.counts, e.nodes, e.lists = e.fields[:fields], e.counts[:counts], e.nodes[:nodes], e.lists[:lists]
	e.nodes[n].children = e.nodes[n].children[:children]
	return 0, false, false
}

func (e *columnEncoder) cut(n uint16, from, to int) bool {
	src := e.src[:to]
	for at := from; at < to; {
		tag, size := pbwire.Uvarint(src[at:])
		if size == 0 || tag>>3 == 0 {
			return false
		}
		c, ok := e.child(n, tag>>3, uint8(tag&7), maxNodes)
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

// findShape finds e.runsHere among the shapes of a node, or adds it.
func (e *columnEncoder) findShape(n uint16, counts []uint32) (shape int, isNew, ok bool) {
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
	if len(shapes) >= maxNodeShapes || len(e.shapes) >= maxShapes || len(e.runs)+len(e.runsHere) > maxRuns {
		return 0, false, false
	}
	from := len(e.runs)
	e.runs = append(e.runs, e.runsHere...)
	e.addShape(n, from, hash)
	return len(shapes), true, true
}
