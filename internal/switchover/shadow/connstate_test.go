package shadow

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// names returns the names of the operations that a new connection would repeat.
func (s *connState) names() (all []string) {
	for _, op := range s.operations() {
		all = append(all, op.Name)
	}
	return all
}

// A new connection repeats the operations whose effect lasts: of a transaction that is over only those that survive it,
// and all of one that is open.
func TestStateOfTransactions(t *testing.T) {
	connect, begin, commit := &Operation{Name: "connect"}, &Operation{Name: "begin", Lasts: InTransaction}, &Operation{Name: "commit", Kind: Write, Ends: Committed}
	rollback := &Operation{Name: "rollback", Kind: Write, Ends: RolledBack}
	prepare, set := &Operation{Name: "prepare"}, &Operation{Name: "set", Lasts: IfCommitted}
	insert, sync := &Operation{Name: "insert", Kind: Write}, &Operation{Name: "sync"}
	left, mixed := &Operation{Name: "left out", SkipReason: "why"}, &Operation{Name: "mixed", Lasts: Unrepeatable}
	pins, reads := &Operation{Name: "pins", Kind: Read, Keep: true, Lasts: InTransaction}, &Operation{Name: "reads", Kind: Read, Keep: true}
	for _, c := range []struct {
		done, want []*Operation
		before     []*Operation // wanted in addition if the connection is older than the run
	}{
		{done: []*Operation{connect, insert, left, mixed}, want: []*Operation{connect}},
		{done: []*Operation{connect, begin, insert, commit}, want: []*Operation{connect}},
		{done: []*Operation{connect, begin, insert, rollback}, want: []*Operation{connect}},
		{done: []*Operation{connect, begin, insert}, want: []*Operation{connect, begin}},
		{done: []*Operation{connect, begin, set, prepare, commit}, want: []*Operation{connect, set, prepare}},
		{done: []*Operation{connect, begin, set, prepare, rollback}, want: []*Operation{connect, prepare}},
		{done: []*Operation{connect, set, begin, set, rollback}, want: []*Operation{connect, set}},
		{done: []*Operation{connect, set, sync, begin, set}, want: []*Operation{connect, set, sync, begin, set}},
		{done: []*Operation{connect, set, sync, begin, set, commit}, want: []*Operation{connect, sync, set}},
		{done: []*Operation{connect, begin, begin, commit, begin, rollback, rollback, sync}, want: []*Operation{connect, sync}},
		{done: []*Operation{commit, rollback}},
		{done: []*Operation{connect, reads, begin, pins, commit}, want: []*Operation{connect}, before: []*Operation{reads}},
	} {
		for _, before := range []bool{false, true} {
			all, which, want := connStates{}, (*Operation).isState, &connState{ops: c.want}
			if before {
				which, want = (*Operation).isStateBefore, &connState{ops: slices.Concat(c.want, c.before)}
			}
			var grown, size int64
			for _, op := range c.done {
				grown += all.remember(1, []*Operation{op}, which)
			}
			for _, op := range want.ops {
				size += op.weight()
			}
			name := (&connState{ops: c.done}).names()
			if got := all[1].names(); !slices.Equal(got, want.names()) {
				t.Errorf("%q, older than the run %v: %q, want %q", name, before, got, want.names())
			}
			if held := all.forget(1); grown != size || held != size {
				t.Errorf("%q, older than the run %v: grown by %d, holds %d, want %d", name, before, grown, held, size)
			}
		}
	}
}

// Of very many operations, the first, which connects or begins the transaction, and the last are kept.
func TestStateIsBounded(t *testing.T) {
	add := func(all connStates, name string, lasts Lasting) {
		all.remember(1, []*Operation{{Name: name, Lasts: lasts}}, (*Operation).isState)
	}
	for _, n := range []int{maxStates - 1, maxStates, maxStates + 1, 3 * maxStates} {
		all := connStates{}
		for i := range n {
			add(all, fmt.Sprint(i), ForGood)
		}
		for i := range n {
			add(all, fmt.Sprint("in ", i), InTransaction)
		}
		want := func(prefix string) []string {
			out := []string{prefix + "0"}
			for i := max(1, n-maxStates+1); i < n; i++ {
				out = append(out, fmt.Sprint(prefix, i))
			}
			return out
		}
		if got := all[1].names(); !slices.Equal(got, append(want(""), want("in ")...)) {
			t.Errorf("of %d: %d, %q to %q", n, len(got), got[0], got[len(got)-1])
		}
	}
}

// following is a Protocol whose Readers return the given operations, one for each reply.
type following struct {
	willing
	ops *[]*Operation
}

func (f following) Reader() Reader { return &followed{ops: f.ops} }

type followed struct {
	mute
	ops *[]*Operation
}

func (f *followed) Reply([]byte, time.Time) (done []*Operation, err error) {
	done, *f.ops = (*f.ops)[:1], (*f.ops)[1:]
	return done, nil
}

// What clients did before the run is not mirrored, even if the mirror reads it when the run is to begin.
func TestPiecesBeforeTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(128 * MiB)
		m := newMirror(Config{Protocol: willing{}}.withDefaults(), b, func(_ *Target, err error) { t.Error(err) })
		m.tap, m.following = newTap(b, 0), true
		c := &clientConn{number: 1}
		var running sync.WaitGroup
		running.Go(func() { m.run(t.Context()) })
		synctest.Wait()
		m.tap.mu.Lock()
		m.tap.queue = append(m.tap.queue, piece{conn: c, from: memory.FromClient, bytes: []byte("x")}) // without a signal
		m.tap.mu.Unlock()
		m.do(t.Context(), func() { m.following = false })
		if !c.early {
			t.Error("a request from before the run was read as part of it")
		}
		m.tap.close()
		running.Wait()
	})
}

// A connection that is older than the run has no transaction open at the targets when its own is over.
func TestTransactionsBeforeTheRun(t *testing.T) {
	ops := []*Operation{{Name: "connect"}, {Name: "begin", Lasts: InTransaction}, {Name: "commit", Kind: Write, Ends: Committed}}
	m := newMirror(Config{Protocol: following{ops: &ops}}.withDefaults(), newBudget(128*MiB), func(_ *Target, err error) { t.Error(err) })
	m.following = true
	c := &clientConn{number: 1}
	for range len(ops) {
		m.handle(t.Context(), piece{conn: c, from: memory.FromUpstream, bytes: []byte("x")})
	}
	if got := m.states[1].names(); !slices.Equal(got, []string{"connect"}) {
		t.Errorf("a new connection repeats %q", got)
	}
}
