package history

import "github.com/cinch-layer/cinch/codec/proto/internal/pbwire"

// What both sides do while going through a message.

// maxNamedRuns limits the runs of a message in which nameable values are looked up.
const maxNamedRuns = 64

// mayBeNamed reports whether the values of the run with index i are looked up among the known ones.
func (m *model) mayBeNamed(r run, i int, known *prefix) bool {
	x := &m.nodes[r.node]
	return i < maxNamedRuns && x.wire == pbwire.BytesType && (x.credit > 0 || known != nil)
}

// mayBeRecord reports whether records are made of a run's messages.
func mayBeRecord(r run, depth int) bool { return r.many || depth == 0 }

// codeText codes whether a value is text.
func (m *model) codeText(x *forms, text bool) bool {
	text = m.flag(&x.isText[x.before], text)
	x.before = 1
	if text {
		x.before = 2
	}
	return text
}

// codeCount codes how many fields a run has, at least one.
func (m *model) codeCount(n uint16, count int) uint64 {
	x := &m.nodes[n]
	s := sizesOf(&x.counts)
	if x.lastCount > 0 && m.flag(&s.zero[1], uint64(count) == x.lastCount) {
		return x.lastCount
	}
	x.lastCount = m.number(s, 0, uint64(count)-1) + 1
	return x.lastCount
}

// codeOther codes the node whose value opAcross names.
func (m *model) codeOther(x *forms, other uint16) uint64 {
	if m.flag(&x.op[4], other == x.other) {
		return uint64(x.other)
	}
	v := m.number(m.defs, 2, uint64(other))
	x.other = uint16(v)
	return v
}

// across keeps a value of another node for this one.
func (m *model) across(n uint16, id uint32) uint32 {
	v := m.values[id]
	m.nodes[v.node].met()
	m.values[id].used = true
	return m.keep(n, v.data, v.hash, 0)
}

func seriesAt(series uint32, i int) uint32 { return series + uint32(i)*0x9E3779B1 }

// chain is a run of values that may be named, while it is coded.
type chain struct {
	m       *model
	n       uint16
	here    uint32
	a, b    uint32
	key     uint32 // the first value as a key
	last    uint32
	hash    uint32
	count   int
	members int  // start of the members on the stack
	broken  bool // not all may be named
	left    int  // number of values not looked up
}

func (m *model) beginChain(n uint16, here uint32, count int, last uint32) chain {
	return chain{m: m, n: n, here: here, a: m.nodes[n].first, b: last, last: last, hash: uint32(count), members: len(m.chain)}
}

func (c *chain) spot() spot {
	return spot{n: c.n, first: c.count == 0, a: c.a, b: c.b}
}

// known adds a first value that has been given already.
func (c *chain) known(p *prefix) {
	c.add(c.m.known(c.n, p), true)
	c.broken = true
}

// known returns the value of node n with the prefix's content, or 0 if it no longer exists.
func (m *model) known(n uint16, p *prefix) uint32 {
	if m.isOf(p.id, n) && string(m.values[p.id].data) == string(p.content) {
		return p.id
	}
	return 0
}

func (c *chain) add(v uint32, guessed bool) {
	if c.count == 0 {
		c.m.nodes[c.n].first = v
		c.key = c.m.asKey(v)
	}
	if v == 0 {
		c.broken = true
	} else {
		c.last = v
	}
	if !guessed {
		c.b = v
	}
	c.a = v
	c.hash = join(c.hash, c.m.values[v].hash)
	c.count++
	c.m.chain = append(c.m.chain, v)
}

// endChain ends a run. If all its values may be named, a pure run identifies its message, and a run that may repeat
// becomes nameable as a list unless it is too long.
func (m *model) endChain(c *chain, r run, h *here, pure bool) {
	if c.left == 0 && !c.broken {
		if r.many && c.count <= maxMembers {
			m.learnList(c.n, c.here, m.chain[c.members:], c.hash)
		}
		if pure {
			h.add(c.hash)
		}
	}
	m.chain = m.chain[:c.members]
}

// takeList makes a guessed list identify its message too, and returns its first value as a key, and its last one.
func (m *model) takeList(l uint32, h *here) (key, last uint32) {
	members := m.lists[l].members
	h.add(m.lists[l].hash)
	return m.asKey(members[0]), members[len(members)-1]
}
