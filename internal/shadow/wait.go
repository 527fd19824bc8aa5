package shadow

import (
	"errors"
	"time"
)

// wait is an operation that waits at a target for those before it, which may wait for locks.
//
// Where one of them waits for a lock that the operation's own connection has, the operation goes on, with all others that wait behind that
// one left behind: production gave the lock back before the other's answer, but its own answer was seen later. Nobody else goes on, so the order
// stays as it was. A lock that is not given back by anyone for long shows that targets hold locks otherwise than production did; then
// everybody goes on.
type wait struct {
	lane   *lane
	looker Looker
	left   []*Operation // not arrived
	called <-chan struct{}

	redefines bool // what reads see that have their snapshot

	pause   time.Duration
	stopped time.Time // since when nothing moves; zero: something does
	looks   int       // that found nothing to move, since then
	silent  time.Time // since when the target does not say; zero: it does
}

var errSilent = errors.New("it neither answers nor says what it does")

// The pause between two looks grows up to mostLooks bounds. After mostStopped bounds, and so many looks, in which nothing moves,
// everybody goes on: on a machine that is too busy to look often, nothing has stopped for that.
const (
	mostLooks    = 8
	mostStopped  = 100
	stoppedLooks = 20
)

// until waits for all, or until the operation is called. It is false when the operation goes on without some of those before it.
func (w *wait) until() bool {
	for {
		next := w.first()
		if next == nil {
			return true
		}
		select {
		case <-next:
			w.stopped = time.Time{}
			continue
		case <-w.called:
			return true
		case <-w.lane.ctx.Done():
			return true
		case <-time.After(w.pause):
		}
		if w.goesOn() {
			return len(w.left) == 0
		}
		if !w.silent.IsZero() && time.Since(w.silent) > w.lane.t.patience {
			w.lane.fail(errSilent)
			return true
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
	moves, mine, silent, behind := false, false, false, false
	for _, op := range w.left {
		if w.leg(op).wait() == nil {
			continue
		}
		sent := w.leg(op).sent()
		if sent == nil { // it waits as this does
			behind = true
			left = append(left, op)
			continue
		}
		switch w.looker.Look(w.lane.ctx, sent.conn, w.lane.connection()) {
		case Seeing:
			if op.Snapshot && !w.redefines {
				op.passed.Store(true)
				continue
			}
			moves = true
		case Working:
			moves = true
		case Silent:
			moves, silent = true, true // it may well move
		case Yielding:
			mine = true
			sent.stop()
		case Stopping:
			sent.stop()
		}
		left = append(left, op)
	}
	w.left = left
	w.hear(silent)
	if len(left) == 0 || mine && !moves {
		return true
	}
	return w.stands(moves, behind)
}

// hear notes whether the target says what it does.
func (w *wait) hear(silent bool) {
	switch {
	case !silent:
		w.silent = time.Time{}
	case w.silent.IsZero():
		w.silent = time.Now()
	}
}

// stands reports whether nothing has moved for too long. For what is behind others that wait it takes twice as long: these go first.
func (w *wait) stands(moves, behind bool) bool {
	now, times := time.Now(), 1
	if behind {
		times = 2
	}
	switch {
	case moves:
		w.stopped = time.Time{}
	case w.stopped.IsZero():
		w.stopped, w.looks = now, 0
	default:
		w.looks++
	}
	return !w.stopped.IsZero() && w.looks >= times*stoppedLooks && now.Sub(w.stopped) > time.Duration(times)*mostStopped*w.lane.t.bound
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
