package proto

import (
	"math/bits"

	"github.com/cinch-layer/cinch/codec/proto/internal/pbwire"
)

// Limits of the model, which are part of the format.
const (
	maxDepth      = 24
	maxNodes      = 1024
	maxChildren   = 64
	maxFieldNo    = 1<<20 - 1
	maxNodeShapes = 64 // shapes of a node, searched one by one; messages of further shapes are given as bytes
	maxShapes     = 4096
	maxRuns       = 1 << 15 // in all shapes
	maxValues     = 1 << 16 // so that their numbers have 16 bits
	maxValueBytes = 1024
	trialCredit   = 4096            // new values of a node before lookups stop
	otherLength   = 32              // cost of a new value with another length than the previous one
	metCredit     = 7 * otherLength // credit for each value found again
)

// The columns of a node.
const (
	colOps = iota
	colShapes
	colRefs
	colCounts
	colKinds
	colNumbers
	colText
	colNoise
	columns
)

// Operations.
const (
	opNew = iota
	opNewKeyKnown
	opNamed
	opNamedOtherwise
	opBits = 2
)

// The references of opNamedOtherwise begin with one of these.
const (
	refOwn = iota
	refAny
	refOther
	refKeys
)

// node is a place in the structure.
type node struct {
	field    uint32
	wire     uint8
	tagSize  uint8
	off      bool   // values are no longer looked for
	other    uint16 // the other node whose value was named here last
	children []uint16
	shapes   []uint16 // numbers in the model's shapes

	first  uint32 // first value of the last run
	list   uint32
	credit uint32 // new values that are allowed before it is off
	length int    // bytes of the last new value

	prev  uint64 // the last number
	costs [ways]uint32

	// For the encoder.
	many           bool // the field has been repeated within a message
	parsed, opaque uint32
	unpacked       uint8  // values in a row that are not packed numbers
	hits           uint32 // right guesses since the last operation

	// For the decoder.
	tag     uint64
	left    uint32 // right guesses before op
	op      uint8
	pending bool  // op is still to be applied
	size    uint8 // bytes of the length of the last message here
}

// run is a part of a shape.
type run struct {
	node uint16
	many bool
}

// shape is a range of runs.
type shape struct{ from, to, hash uint32 }

// span is the position of a value's bytes: in the message, on both sides.
type span struct {
	off  uint32
	len  uint16
	node uint16
}

// bond is the state of a value apart from its bytes.
type bond struct {
	list  uint32 // of values that have this one as key; 0: none
	key   uint16
	at    uint16 // index in its list
	next  uint16 // value that last followed it
	head  uint16 // first value of the run after the last one that began with this value
	after uint16 // value that last followed one that has this value as its key
}

// model holds what encoder and decoder both know while they go through a message, and update in the same way.
// Values, nodes and lists are identified by number; value 0 and list 0 mean none.
type model struct {
	nodes  []node
	shapes []shape
	runs   []run
	spans  []span
	bonds  []bond
	lists  [][]uint32
	room   int      // of all lists, including idle ones
	table  []uint16 // value that followed last, by slot
	shift  uint
	last   [pbwire.Fixed32Type + 1]uint64 // last number by wire type
}

// keptRoom limits the lists that are kept for the next message, in values: otherwise messages with different
// long lists would make all of them long.
const keptRoom = 1 << 18

// keptShapes limits the buffer for shapes that each node keeps, for the same reason.
const keptShapes = 2 * maxNodeShapes

// reset begins a message of raw bytes.
func (m *model) reset(raw int) {
	m.nodes, m.shapes, m.runs, m.lists = m.nodes[:0], m.shapes[:0], m.runs[:0], m.lists[:0]
	if m.room > keptRoom {
		m.lists, m.room = nil, 0
	}
	m.spans = append(m.spans[:0], span{})
	m.bonds = append(m.bonds[:0], bond{})
	m.last = [pbwire.Fixed32Type + 1]uint64{}
	log := min(max(bits.Len(uint(raw)/16), 6), 14)
	m.table = cleared(m.table, 1<<log)
	m.shift = 32 - uint(log)
	m.addNode(0, pbwire.BytesType) // its list is list 0: the message itself is not a value
}

// cleared returns n zeros.
func cleared[T uint16 | uint32](b []T, n int) []T {
	if cap(b) < n {
		return make([]T, n)
	}
	b = b[:n]
	clear(b)
	return b
}

func (m *model) addList() uint32 {
	n := len(m.lists)
	if n < cap(m.lists) {
		m.lists = m.lists[:n+1]
		m.lists[n] = m.lists[n][:0]
	} else {
		m.lists = append(m.lists, nil)
	}
	return uint32(n)
}

func (m *model) addNode(field uint32, wire uint8) uint16 {
	n := len(m.nodes)
	if n < cap(m.nodes) {
		m.nodes = m.nodes[:n+1]
	} else {
		m.nodes = append(m.nodes, node{})
	}
	x := &m.nodes[n]
	shapes := x.shapes[:0]
	if cap(shapes) > keptShapes {
		shapes = nil
	}
	tag := uint64(field)<<3 | uint64(wire)
	*x = node{field: field, wire: wire, tag: tag, tagSize: uint8(pbwire.UvarintLen(tag)), size: 1, credit: trialCredit, children: x.children[:0], shapes: shapes}
	if wire == pbwire.BytesType {
		x.list = m.addList()
	}
	return uint16(n)
}

// child returns a node's child, and adds it if that is allowed.
func (m *model) child(n uint16, field uint64, wire uint8, most int) (uint16, bool) {
	for _, c := range m.nodes[n].children {
		if x := &m.nodes[c]; uint64(x.field) == field && x.wire == wire {
			return c, true
		}
	}
	known := wire <= pbwire.BytesType || wire == pbwire.Fixed32Type
	if !known || field == 0 && wire == pbwire.BytesType || field > maxFieldNo || len(m.nodes) >= most || len(m.nodes[n].children) >= maxChildren {
		return 0, false
	}
	c := m.addNode(uint32(field), wire)
	m.nodes[n].children = append(m.nodes[n].children, c)
	return c, true
}

// addShape adds the runs from the given one on as a shape of a node.
func (m *model) addShape(n uint16, from int, hash uint32) {
	m.nodes[n].shapes = append(m.nodes[n].shapes, uint16(len(m.shapes)))
	m.shapes = append(m.shapes, shape{uint32(from), uint32(len(m.runs)), hash})
}

// slot returns the index in table for the value that followed a when b was the last value that was not guessed.
func (m *model) slot(n uint16, a, b uint32) uint32 {
	h := a*0x9E3779B1 ^ (b*0x85EBCA77 + uint32(n)*0xC2B2AE3D)
	h ^= h >> 15
	h *= 0x2C1B3C6D
	return h >> m.shift
}

// guess returns a likely value of node n if the table has none, or 0. first reports whether it is the first
// of its run.
func (m *model) guess(n uint16, a, b uint32, first bool) uint32 {
	known := &m.bonds[a]
	if first {
		if v := uint32(known.head); m.spans[v].node == n {
			return v
		}
		if v := uint32(m.table[m.slot(n, 0, b)]); m.spans[v].node == n {
			return v
		}
	} else {
		if v := uint32(known.next); m.spans[v].node == n {
			return v
		}
		if v := uint32(m.bonds[known.key].after); m.spans[v].node == n {
			return v
		}
	}
	if m.spans[a].node == n {
		return a
	}
	return 0
}

// learn records the value v that was not guessed.
func (m *model) learn(n uint16, slot, v, a, b uint32, first bool) {
	if v == 0 {
		return
	}
	m.table[slot] = uint16(v)
	if first {
		m.table[m.slot(n, 0, b)] = uint16(v)
	}
	if a == 0 {
		return
	}
	x := &m.bonds[a]
	if first {
		x.head = uint16(v)
		return
	}
	x.next = uint16(v)
	if x.key != 0 {
		m.bonds[x.key].after = uint16(v)
	}
}

// keep makes a value nameable. It returns 0 if that is not possible.
func (m *model) keep(n uint16, off, length int, key uint32) uint32 {
	id := uint32(len(m.spans))
	if id >= maxValues || length > maxValueBytes {
		return 0
	}
	x := &m.nodes[n]
	list := x.list
	if key != 0 {
		if len(x.children) == 0 || m.spans[key].node != x.children[0] || m.bonds[key].key != 0 {
			key = 0
		} else if list = m.bonds[key].list; list == 0 {
			list = m.addList()
			m.bonds[key].list = list
		}
	}
	m.spans = append(m.spans, span{uint32(off), uint16(length), n})
	m.bonds = append(m.bonds, bond{key: uint16(key), at: uint16(len(m.lists[list]))})
	before := cap(m.lists[list])
	m.lists[list] = append(m.lists[list], id)
	m.room += cap(m.lists[list]) - before
	return id
}

// listOf returns the list of values with a key, or without one if key is 0.
func (m *model) listOf(n uint16, key uint32) []uint32 {
	if key == 0 {
		return m.lists[m.nodes[n].list]
	}
	return m.lists[m.bonds[key].list]
}

// crossed records that node n named a value of another node, whose values are therefore worth keeping.
func (m *model) crossed(n, other uint16) {
	m.nodes[n].other = other
	m.nodes[other].credit += metCredit
}

// missed counts a new value of the given length.
func (x *node) missed(length int) {
	if length != x.length {
		x.credit -= min(x.credit, otherLength-1)
	}
	x.credit -= min(x.credit, 1)
	x.length = length
	x.off = x.credit == 0
}
