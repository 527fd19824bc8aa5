package proto

import (
	"encoding/binary"
	"slices"
)

// field is the number in a field, or the beginning and end of its content.
type field uint64

func contentAt(from, to int) field { return field(from)<<32 | field(to) }

func (f field) from() uint32 { return uint32(f >> 32) }
func (f field) to() uint32   { return uint32(f) }

// maxFields limits the fields that an encoder has cut but not coded yet, over all levels.
const maxFields = 1 << 17

// maxNodeShapes limits the shapes that are searched; messages with more shapes are given as bytes.
const maxNodeShapes = 64

// scan splits the content of a message of node n into fields. It appends them to e.fields, and the number of
// fields in each run to e.counts. It returns their shape's number in the node, and whether the shape is new.
// It returns false, without any effect, if the content does not consist of fields in the shortest form, or of
// too many.
func (e *transform) scan(n uint16, from, to int) (shape int, isNew, ok bool) {
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

func (e *transform) cut(n uint16, from, to int) bool {
	src := e.src[:to]
	for at := from; at < to; {
		tag, size := uvarint(src[at:])
		if size == 0 || tag>>3 == 0 {
			return false
		}
		c, ok := e.child(n, tag>>3, uint8(tag&7), maxNodes)
		if !ok {
			return false
		}
		e.runsHere = append(e.runsHere, run{c, e.nodes[c].many})
		before := len(e.fields)
		if at = e.cutRun(src, at, tag, size); at < 0 || len(e.fields) > maxFields {
			return false
		}
		e.counts = append(e.counts, uint32(len(e.fields)-before))
	}
	return true
}

// cutRun cuts the fields with the tag at an offset, whose size is given, and returns the offset of the next
// one, or -1.
func (e *transform) cutRun(src []byte, at int, tag uint64, size int) int {
	fields := e.fields
	for {
		at += size
		var f field
		if tag&7 == wireBytes && at < len(src) && src[at] < 0x80 {
			f = contentAt(at+1, at+1+int(src[at]))
			if at = int(f.to()); at > len(src) {
				return -1
			}
		} else if f, at = readField(src, at, uint8(tag&7)); at < 0 {
			return -1
		}
		fields = append(fields, f)
		if at >= len(src) || len(fields) > maxFields || src[at] != byte(tag)&0x7f|more(size) {
			break
		}
		if size > 1 {
			if next, n := uvarint(src[at:]); next != tag || n != size {
				break
			}
		}
	}
	e.fields = fields
	return at
}

// more returns the high bit of the first byte of a varint of a given size.
func more(size int) byte {
	if size > 1 {
		return 0x80
	}
	return 0
}

// readField reads the field content at an offset and returns the offset of the next field, or -1.
func readField(src []byte, at int, wire uint8) (f field, next int) {
	var v uint64
	size := 0
	switch wire {
	case wireVarint:
		v, size = uvarint(src[at:])
	case wireBytes:
		if v, size = uvarint(src[at:]); size == 0 || v > uint64(len(src)-at-size) {
			return 0, -1
		}
		f = contentAt(at+size, at+size+int(v))
		return f, int(f.to())
	case wire64:
		if len(src)-at >= 8 {
			v, size = binary.LittleEndian.Uint64(src[at:]), 8
		}
	case wire32:
		if len(src)-at >= 4 {
			v, size = uint64(binary.LittleEndian.Uint32(src[at:])), 4
		}
	}
	if size == 0 {
		return 0, -1
	}
	return field(v), at + size
}

// uvarint reads a varint in its shortest form; its size is 0 if there is none.
func uvarint(b []byte) (v uint64, size int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	v, size = binary.Uvarint(b)
	if size <= 0 || b[size-1] == 0 {
		return 0, 0
	}
	return v, size
}

// findShape finds e.runsHere among the shapes of a node, or adds it.
func (e *transform) findShape(n uint16, counts []uint32) (shape int, isNew, ok bool) {
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
