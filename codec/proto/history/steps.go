package history

import "github.com/cinch-layer/cinch/codec/proto/internal/pbwire"

// The steps of a record are made from a message and the state of its node. Both sides do so when the message is
// complete.

// stepMaker makes the steps of a record.
type stepMaker struct {
	nodes []node
	*record
	bases []runBase // of the runs in the message, in coding order
	runs  int       // number of runs so far
}

// makeRecord makes a record of a message that was given in full, if it has numbers. The bases of its runs are
// on the stack from bases on. It returns 0 if it makes none.
func makeRecord(m *model, n uint16, data []byte, base uint32, bases int) uint32 {
	a := &m.nodes[n].records
	a.was = 0
	if a.credit <= 0 {
		return 0
	}
	a.credit--
	r := &m.recs.making
	r.literals, r.steps, r.slots = r.literals[:0], r.steps[:0], r.slots[:0]
	k := stepMaker{nodes: m.nodes, record: r, bases: m.bases[bases:]}
	if !k.message(n, data, 0) || len(r.slots) == 0 {
		a.credit = max(a.credit-uselessCost, 0)
		return 0
	}
	a.made = true
	r.node, r.base, r.next = n, base, a.guess
	id := m.recs.keep(r)
	m.recs.follows(a, id, &m.recs.all[id])
	return id
}

// message makes steps of a message's content. It returns false if that has fields that are new to the node,
// or too many.
func (k *stepMaker) message(n uint16, data []byte, depth int) bool {
	from := 0
	for at := 0; at < len(data); {
		tag, size := pbwire.Uvarint(data[at:])
		c, ok := childOf(k.nodes, n, tag>>3, uint8(tag&7))
		if size == 0 || !ok || at-from > maxRecordBytes {
			return false
		}
		next, taken, ok := k.field(c, data[from:], at-from, size, depth)
		if !ok {
			return false
		}
		if at = from + next; taken {
			from = at
		}
	}
	return k.add(data[from:], step{kind: stepEnd})
}

// field makes steps of the field at an offset of data, including the bytes before it. It returns the end of the field,
// or of its run, and whether the steps cover everything up to there.
func (k *stepMaker) field(n uint16, data []byte, at, tagSize, depth int) (end int, taken, ok bool) {
	x, content := &k.nodes[n], at+tagSize
	f, end := pbwire.ReadField(data, content, x.wire)
	switch {
	case end < 0:
		return 0, false, false
	case x.forms == nil:
		return end, true, k.number(data[:content], n, uint64(f))
	case x.records.made:
		k.runs++
		k.slots = append(k.slots, seen{})
		s := step{kind: stepRun, node: n, base: k.baseOf(n)}
		return pastRun(data, at, x.tag), true, k.runs <= maxRecordRuns && k.add(data[:at], s)
	}
	return end, k.inside(n, data[:content], data[f.From():end], depth), true
}

// inside makes steps of a nested message, or of packed numbers. It returns false, without any effect, if the
// content is to be kept whole.
func (k *stepMaker) inside(n uint16, before, content []byte, depth int) bool {
	x := &k.nodes[n]
	if depth >= maxRecordDepth || len(x.children) == 0 || x.credit > namesValues {
		return false
	}
	literals, steps, slots, runs := len(k.literals), len(k.steps), len(k.slots), k.runs
	for _, packed := range [...]bool{false, true} {
		ok := k.add(before, step{kind: stepOpen, size: uint8(pbwire.UvarintLen(uint64(len(content))))})
		if packed {
			ok = ok && k.packed(n, content)
		} else {
			ok = ok && k.message(n, content, depth+1)
		}
		if ok && len(k.slots) > slots {
			k.steps[len(k.steps)-1].kind = stepClose
			return true
		}
		k.literals, k.steps, k.slots, k.runs = k.literals[:literals], k.steps[:steps], k.slots[:slots], runs
	}
	return false
}

// packed makes steps of packed numbers, of the first wire type that the node has had.
func (k *stepMaker) packed(n uint16, content []byte) bool {
	for _, c := range k.nodes[n].children {
		if k.nodes[c].field == 0 {
			return k.numbers(c, content)
		}
	}
	return false
}

func (k *stepMaker) numbers(n uint16, content []byte) bool {
	wire := k.nodes[n].wire
	for at := 0; at < len(content); {
		f, end := pbwire.ReadField(content, at, wire)
		if end < 0 || !k.number(nil, n, uint64(f)) {
			return false
		}
		at = end
	}
	return k.add(nil, step{kind: stepEnd})
}

func (k *stepMaker) add(literal []byte, s step) bool {
	if len(k.literals)+len(literal) > maxRecordBytes || len(k.steps) >= maxSteps {
		return false
	}
	s.literal = uint16(len(literal))
	k.literals = append(k.literals, literal...)
	k.steps = append(k.steps, s)
	return true
}

// number adds a step for a number, with its slot.
func (k *stepMaker) number(literal []byte, n uint16, v uint64) bool {
	x := &k.nodes[n]
	k.slots = append(k.slots, seen{prev: v, prev2: v, size: x.numbers.size})
	return k.add(literal, step{kind: stepNumber, node: n, wire: x.wire})
}

// baseOf returns and removes the base of the next run of a node, 0 if there is none.
func (k *stepMaker) baseOf(n uint16) uint32 {
	for i := range k.bases {
		if b := &k.bases[i]; b.node == n {
			b.node = 0
			return b.base
		}
	}
	return 0
}

// pastRun returns the end of the run with a tag that begins at an offset.
func pastRun(data []byte, at int, tag uint64) int {
	for at < len(data) {
		next, size := pbwire.Uvarint(data[at:])
		if size == 0 || next != tag {
			break
		}
		_, end := pbwire.ReadField(data, at+size, pbwire.BytesType)
		if end < 0 {
			break
		}
		at = end
	}
	return at
}
