package history

// A message that recurs with other numbers is kept as a record of its node: the bytes between its numbers, and its last
// numbers. Runs of further records in it are left open.

const (
	maxRecordBytes = 2048 // between the numbers of one record
	maxSteps       = 512
	maxRecordRuns  = 8
	maxRecordDepth = 8
)

// Bytes that count in addition to those between numbers.
const (
	perRecord = 128
	perStep   = 12
	perSlot   = 24
)

// Credit is the number of further records that a node may make. A trial takes one, a useless record takes
// more, and one that recurs gives some back.
const (
	firstRecordCredit = 1 << 14
	mostRecordCredit  = 1 << 15
	againCredit       = 4
	uselessCost       = 15
	trialRecordCredit = 1 // minimum, with each message
)

// namesValues is the credit of a node above which records keep its values whole, including numbers.
const namesValues = 1024

// Kinds of steps, by what follows their bytes.
const (
	stepEnd = iota
	stepNumber
	stepOpen // the length of a message, or of packed numbers
	stepClose
	stepRun // of records of another node, possibly empty
)

// step is a part of a record: constant bytes, and what follows them.
type step struct {
	literal uint16 // number of bytes
	node    uint16 // for a number, or a run
	kind    uint8
	wire    uint8  // for a number
	size    uint8  // for the decoder: bytes that the length took last
	base    uint32 // for a run: base of its messages
}

// record is a message that recurs. Number 0 means none.
type record struct {
	literals []byte
	steps    []step
	slots    []seen // of numbers, and of the number of fields in runs
	base     uint32 // of the run that it is in
	next     uint32 // record of its node that last followed it
	node     uint16
	kept
}

func (r *record) bytes() int {
	return perRecord + len(r.literals) + perStep*len(r.steps) + perSlot*len(r.slots)
}

// recordState is the state of a node's records.
type recordState struct {
	made   bool // a record has been made
	credit int
	last   uint32
	guess  uint32 // the likely next record
	was    uint8  // 1 if the last one was guessed
	hits   [2]prob
	named  [2]prob
	places *sizes
}

func (a *recordState) begin() {
	a.credit = firstRecordCredit
	even(a.hits[:], a.named[:])
}

// pays reports whether a node's messages are mostly records.
func (a *recordState) pays() bool { return a.made && a.credit >= firstRecordCredit/2 }

// records holds all records. They are forgotten in the same way as values.
type records struct {
	limits *limits
	all    []record
	clock
	bytes  int
	starts memo[uint32] // the first record by base
	making record       // buffers for making a record
}

func newRecords(l *limits) records {
	return records{limits: l, all: make([]record, 1), starts: newMemo[uint32](l.guessed)}
}

func (s *records) keep(made *record) uint32 {
	size := made.bytes()
	for s.bytes+size > s.limits.recordBytes || s.isFull(len(s.all), s.limits.records) {
		s.forget()
	}
	id := take(&s.clock, &s.all)
	s.bytes += size
	s.all[id].copy(made)
	return id
}

// copy makes r a copy of another record, without sharing its slices.
func (r *record) copy(made *record) {
	literals, steps, slots := fitting(r.literals, made.literals), fitting(r.steps, made.steps), fitting(r.slots, made.slots)
	*r = *made
	r.literals, r.steps, r.slots = append(literals, made.literals...), append(steps, made.steps...), append(slots, made.slots...)
	r.kept = kept{used: true, live: true}
}

// fitting returns a buffer for a copy: b, unless that is much too long.
func fitting[T any](b, what []T) []T {
	if n := len(what); cap(b) < n || cap(b) > 2*n {
		return make([]T, 0, n)
	}
	return b[:0]
}

// forget makes room for a record. Only the record forgotten last keeps its buffers.
func (s *records) forget() {
	if k := len(s.free); k > 0 {
		s.all[s.free[k-1]] = record{}
	}
	r := &s.all[forget(&s.clock, s.all)]
	s.bytes -= r.bytes()
	*r = record{literals: r.literals, steps: r.steps, slots: r.slots}
}

// pin prevents a record from being forgotten while its open parts are coded. At most maxDepth records are
// pinned at a time, nested in each other, so there are always others that can be forgotten.
func (s *records) pin(id uint32) *record {
	r := &s.all[id]
	r.pinned = true
	return r
}

func (s *records) unpin(id uint32) { s.all[id].pinned = false }

// isOf reports whether id is a record of node n with this base.
func (s *records) isOf(id uint32, n uint16, base uint32) bool {
	if id == 0 || int(id) >= len(s.all) {
		return false
	}
	r := &s.all[id]
	return r.live && r.node == n && r.base == base
}

// guess returns the likely next record of a node, or 0.
func (s *records) guess(a *recordState, n uint16, base uint32) uint32 {
	if s.isOf(a.guess, n, base) {
		return a.guess
	}
	if p := s.starts.at(base); p != nil && s.isOf(*p, n, base) {
		return *p
	}
	return 0
}

// cameAgain updates the state after a record was used.
func (s *records) cameAgain(a *recordState, id uint32, guessed bool) {
	a.was = 0
	if guessed {
		a.was = 1
	}
	r := &s.all[id]
	s.follows(a, id, r)
	a.guess = r.next
	a.credit = min(a.credit+againCredit, mostRecordCredit)
	r.used = true
}

// follows records that a record came after the last one, and makes it the last one.
func (s *records) follows(a *recordState, id uint32, r *record) {
	last := &s.all[a.last]
	if last.base != r.base {
		s.starts.put(r.base, id)
	}
	if a.last != 0 {
		last.next = id
	}
	a.last = id
}

// runBase is the base of a run given in full.
type runBase struct {
	base uint32
	node uint16
}
