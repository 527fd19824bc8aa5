package shadow

import "time"

// wait is an operation that waits at a target for those before it, which may wait for locks.
//
// Where one of them waits for a lock that the operation's own connection has, the operation goes on, with all others that wait behind that
// one left behind: production gave the lock back before the other's answer, but its own answer was seen later. Nobody else goes on, so the order
// stays as it was. A lock that is not given back by anyone for long shows that targets hold locks otherwise than production did; then
// everybody goes on.
type wait struct {
	lane    *lane
	looker  Looker
	left    []*Operation // not arrived
	pause   time.Duration
	stopped time.Time // since when nothing moves; zero: something does
}

// The pause between two looks grows up to mostLooks bounds. After mostStopped bounds in which nothing moves, everybody goes on.
const (
	mostLooks   = 8
	mostStopped = 100
)

// until is false when the operation goes on without some of those before it.
func (w *wait) until() bool {
	for {
		next := w.first()
		if next == nil {
			return true
		}
		if w.lane.waited(next, time.After(w.pause)) {
			w.stopped = time.Time{}
			if w.lane.ctx.Err() != nil {
				return true
			}
			continue
		}
		if w.goesOn() {
			return len(w.left) == 0
		}
		w.pause = min(2*w.pause, mostLooks*w.lane.t.bound)
	}
}

// first forgets what has arrived, and returns what is closed when the first of the others has.
func (w *wait) first() <-chan struct{} {
	for len(w.left) > 0 {
		if arrived := w.leg(w.left[0]).wait(); arrived != nil {
			return arrived
		}
		w.left = w.left[1:]
	}
	return nil
}

func (w *wait) leg(op *Operation) *leg { return &op.legs[w.lane.t.place] }

// goesOn looks at what has not arrived.
func (w *wait) goesOn() bool {
	var left []*Operation
	moves, mine := false, false
	for _, op := range w.left {
		if w.leg(op).wait() == nil {
			continue
		}
		sent := w.leg(op).lane.busy.Load()
		if sent == nil { // it waits as this does
			left = append(left, op)
			continue
		}
		switch w.looker.Look(w.lane.ctx, sent.conn, w.lane.connection()) {
		case Seeing:
			if op.Snapshot {
				continue
			}
			moves = true
		case Working:
			moves = true
		case Yielding:
			mine = true
			sent.stop()
		case Stopping:
			sent.stop()
		}
		left = append(left, op)
	}
	w.left = left
	if len(left) == 0 || mine && !moves {
		return true
	}
	return w.stands(moves)
}

// stands reports whether nothing has moved for too long.
func (w *wait) stands(moves bool) bool {
	now := time.Now()
	switch {
	case moves:
		w.stopped = time.Time{}
	case w.stopped.IsZero():
		w.stopped = now
	}
	return !w.stopped.IsZero() && now.Sub(w.stopped) > mostStopped*w.lane.t.bound
}

// sending is what a lane has sent and not seen answered.
type sending struct {
	conn Conn
	ops  []*Operation
}

// stop notes that what is sent waits for others: its latency says nothing.
func (s *sending) stop() {
	for _, op := range s.ops {
		op.stopped.Store(true)
	}
}
