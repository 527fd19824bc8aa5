package proto

import "github.com/cinch-layer/cinch/codec/proto/internal/pbwire"

// Packed fields: values of wire type 2 that consist of numbers of one wire type. They have a shape of one run
// with the field number 0, whose numbers have no tags.

// packed codes the content of a value of node n as numbers. Unless it returns true nothing has been coded.
func (e *columnEncoder) packed(n uint16, f pbwire.Field, depth int) bool {
	if depth >= maxDepth || e.nodes[n].unpacked >= pbwire.PackedTrials {
		return false
	}
	src := e.src[f.From():f.To()]
	wire, count, ok := pbwire.PackedAs(src)
	if !ok {
		e.nodes[n].unpacked++
		return false
	}
	nodes, children := len(e.nodes), len(e.nodes[n].children)
	c, ok := e.child(n, 0, wire, maxNodes)
	if !ok {
		return false
	}
	e.runsHere = append(e.runsHere[:0], run{c, true})
	number, isNew, ok := e.findShape(n, []uint32{uint32(count)})
	if !ok {
		e.nodes, e.nodes[n].children = e.nodes[:nodes], e.nodes[n].children[:children]
		return false
	}
	e.beginShape(n, number, isNew)
	e.put(c, colCounts, uint64(count))
	for at := 0; at < len(src); { // without e.fields: there may be millions
		var v pbwire.Field
		v, at = pbwire.ReadField(src, at, wire)
		e.number(c, uint64(v))
	}
	e.nodes[n].unpacked = 0
	return true
}
