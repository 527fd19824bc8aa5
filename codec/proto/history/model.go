package history

import "github.com/cinch-layer/cinch/codec/proto/internal/pbwire"

// Limits of the model, which are part of the format.
const (
	maxDepth      = 24
	maxChildren   = 64
	maxFieldNo    = 1<<20 - 1
	maxNodeShapes = 64
)

// limits limits the tables of a model. They are part of the format too: both ends must use the same ones.
// Tests use smaller ones, so that short messages fill the tables.
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

// Credit pays for looking up a node's values: each new value costs newCost, or newNumbersCost if it contains numbers,
// and each known one adds metCredit. At 0 lookups stop. Each message restores a little of it.
const (
	firstCredit    = 4096
	mostCredit     = 1 << 20
	metCredit      = 224
	newCost        = 32
	newNumbersCost = 192
)

// Worth is the number of further values or numbers of a node that may be neither guessed nor found in a series until
// guessing stops. A success adds hitWorth.
const (
	firstWorth       = 512
	firstSeriesWorth = 1 << 12
	firstListWorth   = 1 << 12
	mostWorth        = 1 << 16
	hitWorth         = 16
	trialWorth       = 2 // minimum, with each message
)

// node is a place in the structure.
type node struct {
	field    uint32
	wire     uint8
	children []uint16
	shapes   []uint16 // numbers in the model's shapes
	tag      uint64
	many     bool // for the encoder: the field has been repeated within a message

	numbers *numbers // for a node of numbers
	*forms           // for a node of values
	counts  *sizes   // of fields in a run

	lastCount uint64
}

// forms is the state of a node's values.
type forms struct {
	lastShape uint8
	after     [maxNodeShapes]uint8 // the shape that followed each shape
	sameShape [2]prob
	shapeTree [128]prob
	isText    [3]prob
	before    uint8 // 1: a message, 2: text

	credit int
	worth  int
	first  uint32     // first value of the last run
	hits   [2][2]prob // by whether it is not the first of its run, and whether the previous one was guessed
	was    uint8
	op     [5]prob

	lists    hits
	lastList uint32
	records  recordState

	blocks []uint32
	bare   uint32 // 1 + the block of values without a key
	other  uint16 // the other node whose value was named here last

	lengths, places, blockPlaces *sizes

	// For the encoder.
	parsed, opaque uint32
	unpacked       uint8 // values in a row that are not packed numbers

	lengthSize uint8 // for the decoder: bytes of the length of the last message here
}

// run is a part of a shape.
type run struct {
	node uint16
	many bool
}

// shape is a range of runs.
type shape struct{ from, to, hash uint32 }

// model holds what both sides know, and update in the same way.
type model struct {
	coder
	store
	recs    records
	bases   []runBase // of the runs given in full, a stack
	nodes   []node
	shapes  []shape
	runs    []run
	defs    *sizes
	guessed memo[uint32]
	listed  memo[uint32]
	series  memo[seen]
	last    [pbwire.Fixed32Type + 1]uint64 // last number by wire type
	chain   []uint32                       // values of the runs being coded
	bad     bool                           // a reader has found something that no writer writes
}

// reset clears the model, except for the limits.
func (m *model) reset() {
	l := m.limits
	if l == nil {
		l = &formatLimits
	}
	*m = model{
		coder: m.coder, bases: m.bases, store: newStore(l), recs: newRecords(l), defs: newSizes(),
		guessed: newMemo[uint32](l.guessed), listed: newMemo[uint32](l.listed), series: newMemo[seen](l.seriesMemo),
	}
	m.addNode(0, pbwire.BytesType)
}

func (m *model) beginMessage() {
	for i := range m.nodes {
		x := &m.nodes[i]
		if f := x.forms; f != nil {
			if !f.records.pays() {
				f.credit = max(f.credit, 1)
			}
			f.worth, f.lists.worth = max(f.worth, trialWorth), max(f.lists.worth, trialWorth)
			f.records.credit = max(f.records.credit, trialRecordCredit)
		}
		if s := x.numbers; s != nil {
			s.worth = max(s.worth, trialWorth)
		}
	}
}

func (m *model) addNode(field uint32, wire uint8) uint16 {
	x := node{field: field, wire: wire, tag: uint64(field)<<3 | uint64(wire)}
	if wire == pbwire.BytesType {
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
	f.records.begin()
	even(f.hits[0][:], f.hits[1][:])
	return f
}

// childOf returns a node's child, if it exists.
func childOf(nodes []node, n uint16, field uint64, wire uint8) (uint16, bool) {
	for _, c := range nodes[n].children {
		if x := &nodes[c]; uint64(x.field) == field && x.wire == wire {
			return c, true
		}
	}
	return 0, false
}

// child returns a node's child, and adds it if that is allowed.
func (m *model) child(n uint16, field uint64, wire uint8) (uint16, bool) {
	if c, ok := childOf(m.nodes, n, field, wire); ok {
		return c, true
	}
	known := wire <= pbwire.BytesType || wire == pbwire.Fixed32Type
	if !known || field == 0 && wire == pbwire.BytesType || field > maxFieldNo || len(m.nodes) >= m.limits.nodes || len(m.nodes[n].children) >= maxChildren {
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

// isFull reports whether there is no room for more structure.
func (m *model) isFull() bool {
	return len(m.nodes) == m.limits.nodes || len(m.shapes) == m.limits.shapes || len(m.runs) > m.limits.runs-maxChildren
}

// codeShape codes the number of a shape. A new shape is coded as the number of the node's shapes.
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

// met and missed count known and new values.
func (x *forms) met() { x.credit = min(x.credit+metCredit, mostCredit) }

func (x *forms) missed(pure bool) {
	cost := newCost
	if !pure {
		cost = newNumbersCost
	}
	x.credit = max(x.credit-cost, 0)
}

// here identifies a message among those of its node, as far as it has been coded: by its parent and its place
// in the run, or instead by its values.
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
