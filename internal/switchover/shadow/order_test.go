package shadow

import (
	"slices"
	"strings"
	"testing"
)

func op(conn uint64, kind Kind, keys ...string) *Operation {
	o := &Operation{Kind: kind, Keys: keys, conn: conn}
	o.pendingTargets.Store(targets)
	return o
}

// waits returns the indexes of the earlier operations that each one waits for.
func waits(o *order, ops ...*Operation) [][]int {
	var out [][]int
	for i, op := range ops {
		places := []int{}
		for _, b := range o.enter(op, nil) {
			places = append(places, slices.Index(ops[:i], b))
		}
		slices.Sort(places)
		out = append(out, places)
	}
	return out
}

func TestOrder(t *testing.T) {
	whole := func(conn uint64) *Operation {
		o := op(conn, Write)
		o.TouchesAll = true
		return o
	}
	wholeRead := func(conn uint64) *Operation {
		o := op(conn, Read)
		o.TouchesAll = true
		return o
	}
	using := func(conn uint64, what string) *Operation {
		o := op(conn, Read, "k")
		o.Uses = []string{what}
		return o
	}
	for name, c := range map[string]struct {
		ops  []*Operation
		want [][]int
	}{
		"reads don't wait for each other":              {[]*Operation{op(1, Read, "a"), op(2, Read, "a"), op(3, Read, "a")}, [][]int{{}, {}, {}}},
		"a read waits for the last write":              {[]*Operation{op(1, Write, "a"), op(2, Write, "a"), op(3, Read, "a")}, [][]int{{}, {0}, {1}}},
		"a write waits for reads":                      {[]*Operation{op(1, Read, "a"), op(2, Read, "a"), op(3, Write, "a")}, [][]int{{}, {}, {0, 1}}},
		"other keys don't matter":                      {[]*Operation{op(1, Write, "a"), op(2, Write, "b")}, [][]int{{}, {}}},
		"nor does the same connection":                 {[]*Operation{op(1, Write, "a"), op(1, Write, "a"), op(2, Read, "a")}, [][]int{{}, {}, {1}}},
		"all keys of an operation count":               {[]*Operation{op(1, Write, "a"), op(2, Write, "b"), op(3, Write, "a", "b")}, [][]int{{}, {}, {0, 1}}},
		"what touches everything waits":                {[]*Operation{op(1, Write, "a"), op(2, Read, "b"), whole(3)}, [][]int{{}, {}, {0, 1}}},
		"and all wait for it":                          {[]*Operation{whole(1), op(2, Read, "a"), op(3, Write, "b")}, [][]int{{}, {0}, {0}}},
		"an operation is waited for once":              {[]*Operation{op(1, Write, "a", "b"), op(2, Write, "a", "b")}, [][]int{{}, {0}}},
		"state is of its connection":                   {[]*Operation{op(1, State), op(2, State)}, [][]int{{}, {}}},
		"parts of a key don't matter to each other":    {[]*Operation{op(1, Write, "a\x00x"), op(2, Write, "a\x00y")}, [][]int{{}, {}}},
		"a part matters to itself":                     {[]*Operation{op(1, Write, "a\x00x"), op(2, Read, "a\x00x"), op(3, Write, "a\x00x")}, [][]int{{}, {0}, {0, 1}}},
		"what reads a key waits for its parts' writes": {[]*Operation{op(1, Write, "a\x00x"), op(2, Read, "a\x00y"), op(3, Read, "a")}, [][]int{{}, {}, {0}}},
		"what writes a key waits for all of its parts": {[]*Operation{op(1, Write, "a\x00x"), op(2, Read, "a\x00y"), op(3, Write, "a")}, [][]int{{}, {}, {0, 1}}},
		"a part's write waits for reads of the key":    {[]*Operation{op(1, Read, "a"), op(2, Write, "a\x00x"), op(3, Read, "a\x00y")}, [][]int{{}, {0}, {}}},
		"a part waits for a write of the key":          {[]*Operation{op(1, Write, "a"), op(2, Read, "a\x00x"), op(3, Write, "a\x00y")}, [][]int{{}, {0}, {0}}},
		"a write of the key stands for its parts":      {[]*Operation{op(1, Write, "a\x00x"), op(2, Write, "a"), op(3, Write, "a\x00x")}, [][]int{{}, {0}, {1}}},
		"parts of other keys don't matter":             {[]*Operation{op(1, Write, "a\x00x"), op(2, Write, "b"), op(3, Write, "b\x00x")}, [][]int{{}, {}, {1}}},
		"a reader of everything waits for writes":      {[]*Operation{op(1, Write, "a"), op(2, Read, "b"), wholeRead(3), op(4, Write, "c"), op(5, Read, "c")}, [][]int{{}, {}, {0}, {2}, {3}}},
		"readers wait where they use the same":         {[]*Operation{using(1, "c"), using(2, "c"), op(3, Read, "k")}, [][]int{{}, {0}, {}}},
		"a write after a write and reads":              {[]*Operation{op(1, Write, "a"), op(2, Read, "a"), op(3, Write, "a"), op(4, Read, "a")}, [][]int{{}, {0}, {0, 1}, {2}}},
		"the last of a connection is enough":           {[]*Operation{op(1, Write, "a"), op(1, Write, "b"), whole(2)}, [][]int{{}, {}, {1}}},
	} {
		if got := waits(newOrder(), c.ops...); !slices.EqualFunc(got, c.want, slices.Equal[[]int]) {
			t.Errorf("%s: %v, not %v", name, got, c.want)
		}
	}
}

// Operations that are done at both targets are not waited for any more, and removed.
func TestOrderForgetsWhatIsOver(t *testing.T) {
	o := newOrder()
	first, second := op(1, Write, "a"), op(2, Read, "b")
	o.enter(first, nil)
	o.enter(second, nil)
	first.pendingTargets.Store(0)
	second.pendingTargets.Store(0)
	if before := o.enter(op(3, Write, "a", "b"), nil); len(before) > 0 {
		t.Errorf("waits for %d that are over", len(before))
	}
	o = newOrder()
	o.enter(first, nil)
	o.enter(second, nil)
	o.tidy()
	if n := o.all; n.write != nil || len(n.parts) > 0 || len(n.partWrites) > 0 || len(n.partReads) > 0 {
		t.Errorf("%d keys and %d connections are kept", len(n.parts), len(n.partWrites)+len(n.partReads))
	}
}

// Operations that follow one left out by sampling are left out, too, and those that follow a mirrored one are
// mirrored.
func TestFollowersShareTheChoice(t *testing.T) {
	m := newMirror(Config{Reads: 1e-9}.withDefaults(), newBudget(MiB), nil)
	first := op(1, Read, "a")
	first.skipped = !m.chosen(first)
	next := op(2, Read, "a")
	next.Follows = first
	if m.chosen(first) || m.chosen(next) {
		t.Error("a read in a thousand million is mirrored")
	}
	first.skipped = false
	if !m.chosen(next) {
		t.Error("what follows a mirrored operation is left out")
	}
}

// The parts of a key are limited, whatever a client sends: each is a map.
func TestPartsAreFew(t *testing.T) {
	o := newOrder()
	deep := strings.Repeat(Part, 1_000_000)
	if got := waits(o, op(1, Write, deep+"x"), op(2, Write, deep+"x"), op(3, Write, deep+"y")); len(got[1]) != 1 || len(got[2]) != 0 {
		t.Errorf("waits for %v", got)
	}
	depth := 0
	for n := &o.all; n != nil; depth++ {
		var next *node
		for _, next = range n.parts {
			break
		}
		n = next
	}
	if depth > maxParts+1 {
		t.Errorf("%d nodes lie in each other", depth)
	}
}
