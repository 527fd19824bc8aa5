package shadow

import (
	"context"
	"slices"
	"time"
)

// waking is an operation that waited in production for another connection's, such as a push for a blocked
// pop. Its answer is often seen first, so it is held back until the other one has arrived.
type waking struct {
	op   *Operation
	conn uint64
	at   time.Time // of its answer
}

// latestCause limits how long a woken operation is held back for the one that woke it.
const latestCause = 50 * time.Millisecond

// arrive submits the operations that a piece completed, and those that were held back for them.
func (m *mirror) arrive(ctx context.Context, conn uint64, at time.Time, done []*Operation) {
	if len(done) == 0 {
		return
	}
	m.wakeOf(ctx, conn)
	behind := m.wakeFor(ctx, at, done)
	if last := done[len(done)-1]; last.Woken {
		m.woken = append(m.woken, waking{last, conn, at})
		done = done[:len(done)-1]
	}
	m.submit(ctx, conn, done)
	for _, w := range behind {
		m.submit(ctx, w.conn, []*Operation{w.op})
	}
}

// wakeFor submits the held operations that must come before done, and returns those that done may have woken.
func (m *mirror) wakeFor(ctx context.Context, at time.Time, done []*Operation) (behind []waking) {
	m.woken = slices.DeleteFunc(m.woken, func(w waking) bool {
		i := slices.IndexFunc(done, func(op *Operation) bool { return op.meets(w.op) })
		if i < 0 {
			return false
		}
		if began := at.Add(-done[i].Production.Took); done[i].Kind == Write && began.Before(w.at) {
			behind = append(behind, w)
		} else {
			m.submit(ctx, w.conn, []*Operation{w.op})
		}
		return true
	})
	return behind
}

// meets reports whether two operations touch the same.
func (op *Operation) meets(other *Operation) bool {
	return op.Whole || other.Whole || slices.ContainsFunc(op.Keys, func(k string) bool { return slices.Contains(other.Keys, k) })
}

// wakeOf submits the held operation of a connection: the connection goes on, so that one comes before.
func (m *mirror) wakeOf(ctx context.Context, conn uint64) {
	m.wake(ctx, func(w waking) bool { return w.conn == conn })
}

// wakeAll submits held operations that were answered before at.
func (m *mirror) wakeAll(ctx context.Context, at time.Time) {
	m.wake(ctx, func(w waking) bool { return w.at.Before(at) })
}

func (m *mirror) wake(ctx context.Context, which func(waking) bool) {
	m.woken = slices.DeleteFunc(m.woken, func(w waking) bool {
		if !which(w) {
			return false
		}
		m.submit(ctx, w.conn, []*Operation{w.op})
		return true
	})
}

// now returns the current time, in a recording that of the latest piece.
func (m *mirror) now() time.Time {
	if m.replayed {
		return m.latest
	}
	return time.Now()
}

// causeIsLate fires when the first held operation has waited long enough. In a recording it is nil: time
// passes with the pieces.
func (m *mirror) causeIsLate() <-chan time.Time {
	if len(m.woken) == 0 || m.replayed {
		return nil
	}
	return time.After(time.Until(m.woken[0].at.Add(latestCause)))
}
