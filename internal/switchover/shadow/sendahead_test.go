package shadow

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// undoing answers its first operation only when the second has gone ahead of it.
type undoing struct {
	willing
	second *Operation
	sent   atomic.Int32
	ahead  atomic.Int32
}

func (u *undoing) Dial(_ context.Context, t *Target) (Conn, error) { return &undoingConn{u, t}, nil }

func (*undoing) Look(context.Context, Conn, Conn) Progress { return Working }

type undoingConn struct {
	*undoing
	t *Target
}

func (c *undoingConn) Send(ops []*Operation, _ time.Time, answered func(int, Answer)) error {
	c.sent.Add(1)
	if ops[0] != c.second {
		if !c.t.Ahead(context.Background(), c.second, c) {
			return errors.New("it did not go ahead")
		}
		c.ahead.Add(1)
	}
	answered(0, Answer{})
	return nil
}

// An operation that Ahead calls goes before those that it waits for, whether it was submitted before that call or
// after.
func TestAhead(t *testing.T) {
	for _, late := range []bool{false, true} {
		u := &undoing{second: &Operation{Kind: Write, TouchesAll: true}}
		m := newMirror(Config{Protocol: u}.withDefaults(), newBudget(128*MiB), func(_ *Target, err error) { t.Error(err) })
		m.submit(t.Context(), 1, []*Operation{{Kind: Write, TouchesAll: true}})
		for late && u.sent.Load() < targets {
			time.Sleep(time.Millisecond)
		}
		m.submit(t.Context(), 2, []*Operation{u.second})
		for _, target := range m.targets {
			target.settle()
		}
		if u.ahead.Load() != targets {
			t.Errorf("late %v: %d of %d operations went ahead", late, u.ahead.Load(), targets)
		}
	}
}
