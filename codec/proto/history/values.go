package history

import "hash/crc32"

// Values that may be named, and lists of them.

const (
	maxValueBytes = 2048
	maxMembers    = 64 // per list
)

// value is a nameable value. Number 0 means none.
type value struct {
	data  []byte
	hash  uint32
	block uint32
	at    uint32 // index in the block
	next  uint32 // value that last followed it in a run
	head  uint32 // first value of the run after the last one that began with this value
	node  uint16
	kept
	firm bool // next was right the last time
}

// block holds the values of a node that begin with the same value, their key, or those without a key.
// Forgotten values leave a 0, until there are too many.
type block struct {
	members []uint32
	key     uint32 // hash of the key
	keyID   uint32 // the value that was last used as the key
	at      uint32 // index in the node's blocks
	after   uint32 // value that last followed a member in a run
	gone    int
	node    uint16
}

// list is a run of values that may be named together. Number 0 means none.
type list struct {
	members []uint32
	hash    uint32
	next    uint32 // list that last followed it in its node
	node    uint16
	kept
}

type store struct {
	limits *limits

	values   []value
	ofValues clock
	bytes    int

	blocks     []block
	freeBlocks []uint32
	byKey      map[uint64]uint32

	lists   []list
	ofLists clock
	members int // of all lists
}

func newStore(l *limits) store {
	return store{limits: l, values: make([]value, 1), lists: make([]list, 1), byKey: map[uint64]uint32{}}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func hashOf(b []byte) uint32 { return crc32.Update(0, castagnoli, b) }

// keep makes a value nameable.
func (m *model) keep(n uint16, data []byte, hash, keyID uint32) uint32 {
	for m.bytes+len(data) > m.limits.valueBytes || m.ofValues.isFull(len(m.values), m.limits.values) {
		m.forgetValue()
	}
	key := m.values[keyID].hash // even if it was just forgotten, and its number is reused
	id := take(&m.ofValues, &m.values)
	v := &m.values[id]
	*v = value{data: append(roomFor(v.data, len(data)), data...), hash: hash, node: n, kept: kept{used: true, live: true}}
	m.bytes += len(data)
	m.enter(id, n, keyID, key)
	return id
}

// roomFor returns a buffer for n bytes: b, unless that is much too long, so that the limit of kept bytes also
// limits the memory.
func roomFor(b []byte, n int) []byte {
	if cap(b) > 2*n+32 {
		return nil
	}
	return b[:0]
}

// enter adds a value to the block of a key with the given hash.
func (m *model) enter(id uint32, n uint16, keyID, key uint32) {
	b := m.blockOf(n, key)
	x := &m.blocks[b]
	x.keyID = keyID
	m.values[id].block, m.values[id].at = b, uint32(len(x.members))
	x.members = append(x.members, id)
}

func (m *model) blockOf(n uint16, key uint32) uint32 {
	if key == 0 {
		if b := m.nodes[n].bare; b != 0 {
			return b - 1
		}
		m.nodes[n].bare = m.newBlock(n, 0) + 1
		return m.nodes[n].bare - 1
	}
	k := uint64(n)<<32 | uint64(key)
	b, ok := m.byKey[k]
	if !ok {
		b = m.newBlock(n, key)
		m.byKey[k] = b
	}
	return b
}

func (m *model) newBlock(n uint16, key uint32) uint32 {
	b := uint32(len(m.blocks))
	if k := len(m.freeBlocks); k > 0 {
		b, m.freeBlocks = m.freeBlocks[k-1], m.freeBlocks[:k-1]
	} else {
		m.blocks = append(m.blocks, block{})
	}
	x, of := &m.blocks[b], &m.nodes[n].blocks
	*x = block{node: n, key: key, members: x.members[:0], at: uint32(len(*of))}
	*of = append(*of, b)
	return b
}

// forgetValue makes room for a value.
func (m *model) forgetValue() {
	v := &m.values[forget(&m.ofValues, m.values)]
	m.bytes -= len(v.data)
	b := &m.blocks[v.block]
	b.members[v.at] = 0
	b.gone++
	switch {
	case b.gone == len(b.members):
		m.dropBlock(v.block)
	case b.gone > 16 && b.gone > len(b.members)/2:
		m.close(b)
	}
}

// close removes the gaps among a block's values. It reallocates them if the buffer is much too long.
func (m *store) close(b *block) {
	out := b.members[:0]
	if left := len(b.members) - b.gone; cap(out) > 4*left+64 {
		out = make([]uint32, 0, 2*left)
	}
	for _, id := range b.members {
		if id != 0 {
			m.values[id].at = uint32(len(out))
			out = append(out, id)
		}
	}
	b.members, b.gone = out, 0
}

// dropBlock removes an empty block. The node's last block takes its place.
func (m *model) dropBlock(i uint32) {
	b := &m.blocks[i]
	x := &m.nodes[b.node]
	if b.key == 0 {
		x.bare = 0
	} else {
		delete(m.byKey, uint64(b.node)<<32|uint64(b.key))
	}
	last := len(x.blocks) - 1
	moved := x.blocks[last]
	x.blocks[b.at], m.blocks[moved].at = moved, b.at
	x.blocks = x.blocks[:last]
	b.members = roomForIDs(b.members)
	m.freeBlocks = append(m.freeBlocks, i)
}

// roomForIDs drops long buffers of removed blocks.
func roomForIDs(ids []uint32) []uint32 {
	const kept = 64
	if cap(ids) > kept {
		return nil
	}
	return ids[:0]
}

// keyOf returns the key of a value's block.
func (m *store) keyOf(id uint32) uint32 { return m.blocks[m.values[id].block].key }

// asKey returns a value for use as a key: 0 if it has a key itself, or is forgotten.
func (m *store) asKey(id uint32) uint32 {
	if !m.values[id].live || m.keyOf(id) != 0 {
		return 0
	}
	return id
}

// isOf reports whether a number is that of a value of a node.
func (m *store) isOf(id uint32, n uint16) bool {
	return id != 0 && m.values[id].live && m.values[id].node == n
}

// keepList makes a run nameable.
func (m *store) keepList(n uint16, members []uint32, hash uint32) uint32 {
	for m.members+len(members) > m.limits.members || m.ofLists.isFull(len(m.lists), m.limits.lists) {
		m.forgetList()
	}
	id := take(&m.ofLists, &m.lists)
	l := &m.lists[id]
	*l = list{members: append(l.members[:0], members...), hash: hash, node: n, kept: kept{used: true, live: true}}
	m.members += len(members)
	return id
}

// forgetList makes room for a list.
func (m *store) forgetList() {
	l := &m.lists[forget(&m.ofLists, m.lists)]
	m.members -= len(l.members)
	l.members = l.members[:0]
}

// isListOf reports whether a number is that of a list of a node.
func (m *store) isListOf(id uint32, n uint16) bool {
	return id != 0 && m.lists[id].node == n && m.lists[id].live
}
