package history

import (
	"fmt"
	"testing"
)

// Limits that short messages exceed. Each table can still hold what is in use at one time: maxDepth records
// nested in each other, and the longest value.
var (
	smallLimits = limits{
		nodes: 48, shapes: 64, runs: 256,
		values: 24, valueBytes: 3000,
		lists: 12, members: 80,
		records: maxDepth + 8, recordBytes: 1 << 20,
		guessed: 64, listed: 64, seriesMemo: 64,
	}
	byteLimits = limits{
		nodes: 1024, shapes: 4096, runs: 1 << 15,
		values: 1 << 12, valueBytes: 4096,
		lists: 1 << 10, members: 128,
		records: 1 << 12, recordBytes: (maxDepth + 1) * (perRecord + maxRecordBytes + (perStep+perSlot)*maxSteps),
		guessed: 128, listed: 128, seriesMemo: 256,
	}
)

// newSession returns a session whose ends have these limits.
func newSession(l *limits) *session {
	s := &session{}
	s.w.limits, s.r.limits = l, l
	return s
}

// check fails the test if a model's tables contradict each other, exceed their limits, or have much larger
// buffers than they are counted for.
func (m *model) check(t testing.TB) {
	t.Helper()
	if len(m.nodes) == 0 { // it has not begun
		return
	}
	for _, err := range []error{m.checkValues(), m.checkBlocks(), m.checkLists(), m.recs.check()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(m.nodes) > m.limits.nodes || len(m.shapes) > m.limits.shapes || len(m.runs) > m.limits.runs {
		t.Fatalf("%d nodes, %d shapes of %d runs", len(m.nodes), len(m.shapes), len(m.runs))
	}
	for _, n := range []int{len(m.guessed.buckets) - max(m.limits.guessed, leastBuckets), len(m.listed.buckets) - max(m.limits.listed, leastBuckets), len(m.series.buckets) - max(m.limits.seriesMemo, leastBuckets)} {
		if n > 0 {
			t.Fatalf("a memo has %d buckets too many", n)
		}
	}
}

// check returns an error unless each number but 0 is either live or free.
func (c *clock) check(all, most int, live func(id uint32) bool) error {
	if all > most {
		return fmt.Errorf("%d of at most %d", all, most)
	}
	free := map[uint32]bool{}
	for _, id := range c.free {
		if free[id] || live(id) {
			return fmt.Errorf("number %d is free twice, or in use", id)
		}
		free[id] = true
	}
	for id := uint32(1); id < uint32(all); id++ {
		if !live(id) && !free[id] {
			return fmt.Errorf("number %d is lost", id)
		}
	}
	return nil
}

func (m *model) checkValues() error {
	sum, room := 0, 0
	for id := range m.values {
		v := &m.values[id]
		room += cap(v.data)
		if v.pinned {
			return fmt.Errorf("value %d is pinned", id)
		}
		if !v.live {
			continue
		}
		sum += len(v.data)
		if b := &m.blocks[v.block]; b.node != v.node || b.members[v.at] != uint32(id) {
			return fmt.Errorf("value %d is not in its block", id)
		}
	}
	if sum != m.bytes || sum > m.limits.valueBytes || room > 4*m.limits.valueBytes+64*len(m.values) {
		return fmt.Errorf("%d bytes of values, counted as %d, with room for %d", sum, m.bytes, room)
	}
	return m.ofValues.check(len(m.values), m.limits.values, func(id uint32) bool { return m.values[id].live })
}

func (m *model) checkBlocks() error {
	blocks := 0
	for n := range m.nodes {
		x := &m.nodes[n]
		if x.forms == nil {
			continue
		}
		for at, i := range x.blocks {
			b := &m.blocks[i]
			gone := 0
			for _, id := range b.members {
				if id == 0 {
					gone++
				}
			}
			if b.node != uint16(n) || b.at != uint32(at) || b.gone != gone || gone == len(b.members) {
				return fmt.Errorf("block %d of node %d: %+v", i, n, b)
			}
			if cap(b.members) > 8*(len(b.members)-gone)+128 {
				return fmt.Errorf("block %d has room for %d members, and %d are left", i, cap(b.members), len(b.members)-gone)
			}
		}
		blocks += len(x.blocks)
	}
	if blocks+len(m.freeBlocks) != len(m.blocks) {
		return fmt.Errorf("%d blocks and %d free ones, of %d", blocks, len(m.freeBlocks), len(m.blocks))
	}
	return nil
}

func (m *model) checkLists() error {
	sum := 0
	for id := range m.lists {
		l := &m.lists[id]
		if l.pinned || l.live && len(l.members) == 0 {
			return fmt.Errorf("list %d: %+v", id, l)
		}
		if l.live {
			sum += len(l.members)
		}
	}
	if sum != m.members || sum > m.limits.members {
		return fmt.Errorf("%d members of lists, counted as %d", sum, m.members)
	}
	return m.ofLists.check(len(m.lists), m.limits.lists, func(id uint32) bool { return m.lists[id].live })
}

func (s *records) check() error {
	sum, room := 0, 0
	for id := range s.all {
		r := &s.all[id]
		room += cap(r.literals) + perStep*cap(r.steps) + perSlot*cap(r.slots)
		if r.pinned {
			return fmt.Errorf("record %d is pinned", id)
		}
		if !r.live {
			continue
		}
		sum += r.bytes()
		if err := r.check(); err != nil {
			return fmt.Errorf("record %d: %w", id, err)
		}
	}
	const longest = 2 * (maxRecordBytes + maxSteps*(perStep+perSlot))
	if sum != s.bytes || sum > s.limits.recordBytes || room > 2*sum+longest {
		return fmt.Errorf("records of %d bytes, counted as %d, with room for %d", sum, s.bytes, room)
	}
	return s.clock.check(len(s.all), s.limits.records, func(id uint32) bool { return s.all[id].live })
}

// check returns an error unless the steps of a record add up.
func (r *record) check() error {
	literals, slots, runs, depth := 0, 0, 0, 0
	for _, s := range r.steps {
		literals += int(s.literal)
		switch s.kind {
		case stepNumber:
			slots++
		case stepRun:
			slots++
			runs++
		case stepOpen:
			depth++
		case stepClose:
			depth--
		}
		if depth < 0 || depth > maxRecordDepth {
			return fmt.Errorf("%d levels", depth)
		}
	}
	if literals != len(r.literals) || slots != len(r.slots) || depth != 0 || runs > maxRecordRuns || slots == 0 {
		return fmt.Errorf("%d bytes, %d slots, %d runs", literals, slots, runs)
	}
	return nil
}
