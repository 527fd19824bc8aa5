package shadow

import (
	"context"
	"slices"
	"time"
)

// blockedOp is an operation that waited in production for another connection's, such as a blocked pop for a push. Its
// answer is often seen before that of the other one, so it is held back until that has arrived.
type blockedOp struct {
	op   *Operation
	conn uint64
	at   time.Time // time of its answer
}

// maxCauseDelay limits how long an operation that was blocked is held back for the one that unblocked it.
const maxCauseDelay = 50 * time.Millisecond

// arrive submits the operations that a piece completed, and those that were held back for them.
func (m *mirror) arrive(ctx context.Context, conn uint64, at time.Time, done []*Operation) {
	if len(done) == 0 {
		return
	}
	m.unblockConn(ctx, conn)
	behind := m.unblockFor(ctx, at, done)
	if last := done[len(done)-1]; last.WasBlocked {
		m.blocked = append(m.blocked, blockedOp{last, conn, at})
		done = done[:len(done)-1]
	}
	m.submit(ctx, conn, done)
	for _, w := range behind {
		m.submit(ctx, w.conn, []*Operation{w.op})
	}
}

// unblockFor submits the held operations that must come before done, and returns those that done may have unblocked.
func (m *mirror) unblockFor(ctx context.Context, at time.Time, done []*Operation) (behind []blockedOp) {
	m.blocked = slices.DeleteFunc(m.blocked, func(w blockedOp) bool {
		i := slices.IndexFunc(done, func(op *Operation) bool { return op.overlaps(w.op) })
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

// overlaps reports whether two operations touch a common key.
func (op *Operation) overlaps(other *Operation) bool {
	return op.TouchesAll || other.TouchesAll || slices.ContainsFunc(op.Keys, func(k string) bool { return slices.Contains(other.Keys, k) })
}

// unblockConn submits the held operation of a connection, before a later operation of that connection, or its
// end.
func (m *mirror) unblockConn(ctx context.Context, conn uint64) {
	m.unblock(ctx, func(w blockedOp) bool { return w.conn == conn })
}

// unblockBefore submits held operations that were answered before at.
func (m *mirror) unblockBefore(ctx context.Context, at time.Time) {
	m.unblock(ctx, func(w blockedOp) bool { return w.at.Before(at) })
}

func (m *mirror) unblock(ctx context.Context, which func(blockedOp) bool) {
	m.blocked = slices.DeleteFunc(m.blocked, func(w blockedOp) bool {
		if !which(w) {
			return false
		}
		m.submit(ctx, w.conn, []*Operation{w.op})
		return true
	})
}

// now returns the current time or, in the replay of a recording, the time of the latest piece.
func (m *mirror) now() time.Time {
	if m.replayed {
		return m.latest
	}
	return time.Now()
}

// causeTimer returns a channel that fires when the first held operation has waited long enough; nil: there is none, or
// a recording is replayed, where time advances with the pieces.
func (m *mirror) causeTimer() <-chan time.Time {
	if len(m.blocked) == 0 || m.replayed {
		return nil
	}
	return time.After(time.Until(m.blocked[0].at.Add(maxCauseDelay)))
}
