package history

import "math/bits"

// Bounds of the model, which are part of the format.
const (
	maxDepth      = 24
	maxChildren   = 64
	maxFieldNo    = 1<<20 - 1
	maxNodeShapes = 64
)

// limits bound the tables of a model. They are part of the format too: both ends must have the same ones. Tests take smaller
// ones, so that short messages fill the tables.
type limits struct {
	nodes, shapes, runs         int // runs of all shapes
	values, valueBytes          int // bytes of all values
	lists, members              int // members of all lists
	records, recordBytes        int // bytes of all records, as counted by record.bytes
	guessed, listed, seriesMemo int // buckets
}

var formatLimits = limits{
	nodes: 1024, shapes: 4096, runs: 1 << 15,
	values: 1 << 16, valueBytes: 8 << 20,
	lists: 1 << 14, members: 1 << 18,
	records: 1 << 16, recordBytes: 16 << 20,
	guessed: 1 << 13, listed: 1 << 14, seriesMemo: 1 << 15,
}

// Wire types.
const (
	wireVarint = 0
	wire64     = 1
	wireBytes  = 2
	wire32     = 5
)

// Credit is for how many more values of a node that are new others are looked for. What is spent comes back a little with each
// message.
const (
	firstCredit    = 4096
	mostCredit     = 1 << 20
	metCredit      = 224
	newCost        = 32
	newNumbersCost = 192
)

// Worth is for how many more values or numbers of a node, that are not guessed, guesses are looked for.
const (
	firstWorth       = 512
	firstSeriesWorth = 1 << 12
	firstListWorth   = 1 << 12
	mostWorth        = 1 << 16
	hitWorth         = 16
	trialWorth       = 2 // at least, with each message
)

// node is a place in the structure.
type node struct {
	field    uint32
	wire     uint8
	children []uint16
	shapes   []uint16 // by their number in the model
	tag      uint64
	many     bool // the encoder's: it has been repeated

	numbers *numbers // of a node of numbers
	*forms           // of a node of values
	counts  *sizes   // of fields in a run

	lastCount uint64
}

// forms are what is known of a node's values.
type forms struct {
	lastShape uint8
	after     [maxNodeShapes]uint8 // the shape that followed one
	sameShape [2]prob
	shapeTree [128]prob
	isText    [3]prob
	before    uint8 // 1: a message, 2: text

	credit int
	worth  int
	first  uint32     // value of the last run
	hits   [2][2]prob // by whether it is not the first of its run, and whether the one before was guessed
	was    uint8
	op     [5]prob

	lists    hits
	lastList uint32
	again    again

	blocks []uint32
	bare   uint32 // 1 + the block of those without a key
	other  uint16 // whose value was named from here

	lengths, places, blockPlaces *sizes

	// The encoder's.
	parsed, opaque uint32
	unpacked       uint8 // values in a row that are no numbers

	lengthSize uint8 // the decoder's: bytes of the length of the last message here
}

// run is a part of a shape.
type run struct {
	node uint16
	many bool
}

// shape is a stretch of runs.
type shape struct{ from, to, hash uint32 }

// model is what both sides know, and change in the same way.
type model struct {
	coder
	store
	recs    records
	bases   []runBase // of the runs that are given in full, a stack
	nodes   []node
	shapes  []shape
	runs    []run
	defs    *sizes
	guessed memo[uint32]
	listed  memo[uint32]
	series  memo[seen]
	last    [wire32 + 1]uint64 // number of a wire type
	chain   []uint32           // values of the runs that are being coded
	bad     bool               // a reader has met what no writer writes
}

// reset begins with nothing. The limits stay.
func (m *model) reset() {
	l := m.limits
	if l == nil {
		l = &formatLimits
	}
	*m = model{
		coder: m.coder, bases: m.bases, store: newStore(l), recs: newRecords(l), defs: newSizes(),
		guessed: newMemo[uint32](l.guessed), listed: newMemo[uint32](l.listed), series: newMemo[seen](l.seriesMemo),
	}
	m.addNode(0, wireBytes)
}

func (m *model) beginMessage() {
	for i := range m.nodes {
		x := &m.nodes[i]
		if f := x.forms; f != nil {
			if !f.again.pays() {
				f.credit = max(f.credit, 1)
			}
			f.worth, f.lists.worth = max(f.worth, trialWorth), max(f.lists.worth, trialWorth)
			f.again.credit = max(f.again.credit, trialRecordCredit)
		}
		if s := x.numbers; s != nil {
			s.worth = max(s.worth, trialWorth)
		}
	}
}

func (m *model) addNode(field uint32, wire uint8) uint16 {
	x := node{field: field, wire: wire, tag: uint64(field)<<3 | uint64(wire)}
	if wire == wireBytes {
		x.forms = newForms()
	} else {
		x.numbers = newNumbers()
	}
	m.nodes = append(m.nodes, x)
	return uint16(len(m.nodes) - 1)
}

func newForms() *forms {
	f := &forms{credit: firstCredit, worth: firstWorth, lengthSize: 1}
	even(f.sameShape[:], f.shapeTree[:], f.isText[:], f.op[:])
	f.lists.begin()
	f.again.begin()
	even(f.hits[0][:], f.hits[1][:])
	return f
}

// childOf returns a node's child, if it has it.
func childOf(nodes []node, n uint16, field uint64, wire uint8) (uint16, bool) {
	for _, c := range nodes[n].children {
		if x := &nodes[c]; uint64(x.field) == field && x.wire == wire {
			return c, true
		}
	}
	return 0, false
}

// child returns a node's child, and makes it if it may.
func (m *model) child(n uint16, field uint64, wire uint8) (uint16, bool) {
	if c, ok := childOf(m.nodes, n, field, wire); ok {
		return c, true
	}
	known := wire <= wireBytes || wire == wire32
	if !known || field == 0 && wire == wireBytes || field > maxFieldNo || len(m.nodes) >= m.limits.nodes || len(m.nodes[n].children) >= maxChildren {
		return 0, false
	}
	c := m.addNode(uint32(field), wire)
	m.nodes[n].children = append(m.nodes[n].children, c)
	return c, true
}

// addShape takes the runs from the given one on as a shape of a node.
func (m *model) addShape(n uint16, from int, hash uint32) {
	m.nodes[n].shapes = append(m.nodes[n].shapes, uint16(len(m.shapes)))
	m.shapes = append(m.shapes, shape{uint32(from), uint32(len(m.runs)), hash})
}

// isFull tells whether there is no more room for another structure.
func (m *model) isFull() bool {
	return len(m.nodes) == m.limits.nodes || len(m.shapes) == m.limits.shapes || len(m.runs) > m.limits.runs-maxChildren
}

// codeShape codes the number of a shape. The number of the node's shapes stands for a new one.
func (m *model) codeShape(n uint16, number int) int {
	x := m.nodes[n].forms
	guess, same := x.after[x.lastShape], 0
	if guess == x.lastShape {
		same = 1
	}
	if m.flag(&x.sameShape[same], number == int(guess)) {
		number = int(guess)
	} else {
		number = int(m.tree(x.shapeTree[:], uint32(number), 7)) - 128
	}
	if number >= maxNodeShapes {
		m.bad = true
		return 0
	}
	x.after[x.lastShape], x.lastShape = uint8(number), uint8(number)
	return number
}

// met and missed count values that were known, and new.
func (x *forms) met() { x.credit = min(x.credit+metCredit, mostCredit) }

func (x *forms) missed(pure bool) {
	cost := newCost
	if !pure {
		cost = newNumbersCost
	}
	x.credit = max(x.credit-cost, 0)
}

// here is what tells a message from others of its node, as far as it has been coded: the one that it is in, and its
// place in the run, or instead of that the values in it.
type here struct {
	base, hash uint32
	named      bool
}

func inside(outer uint32, n uint16, at int) here {
	base := join(outer, uint32(n))
	return here{base: base, hash: join(base, uint32(at))}
}

func (h *here) add(hash uint32) {
	if !h.named {
		h.hash, h.named = h.base, true
	}
	h.hash = join(h.hash, hash)
}

func sizeOf(v uint64) int { return max((bits.Len64(v)+6)/7, 1) }
