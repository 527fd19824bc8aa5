package shadow

import (
	"errors"
	"time"
)

// wait has an operation wait at a target for those before it, which may in turn wait for locks.
//
// If one of them waits for a lock that is held by the operation's own connection, the operation goes on
// without waiting for that one, or for those that wait behind it: in production the lock was released before
// the other's answer, but the releasing operation's answer was seen later. Other target connections do not go on, so the
// order stays the same. A lock that is not released for long shows that locks are held differently at the
// targets than in production; then all target connections go on.
type wait struct {
	conn   *targetConn
	looker Looker
	left   []*Operation // not arrived
	called <-chan struct{}

	redefines bool // a burst's operation is seen even by reads with an older snapshot

	pause   time.Duration
	stopped time.Time // since when nothing has moved; zero: something moves
	looks   int       // number of looks since then that found nothing moving
	silent  time.Time // since when the target has not told; zero: it does
}

var errSilent = errors.New("it neither answers nor reports what it is doing")

// The pause between two looks grows up to maxLooks bounds. If nothing has moved for maxStopped bounds and
// stoppedLooks looks, all target connections go on. The number of looks matters on a machine that is too busy to look
// often: that alone is no standstill.
const (
	maxLooks     = 8
	maxStopped   = 100
	stoppedLooks = 20
)

// until waits for all operations before this one, or until it is called. It is false when the operation goes
// on without some of them.
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
		case <-w.conn.ctx.Done():
			return true
		case <-time.After(w.pause):
		}
		if w.goesOn() {
			return len(w.left) == 0
		}
		if !w.silent.IsZero() && time.Since(w.silent) > w.conn.t.patience {
			w.conn.fail(errSilent)
			return true
		}
		w.pause = min(2*w.pause, maxLooks*w.conn.t.bound)
	}
}

// first removes the operations that have arrived, and returns a channel that is closed when the first of the
// others arrives.
func (w *wait) first() <-chan struct{} {
	for len(w.left) > 0 {
		if arrived := w.leg(w.left[0]).wait(); arrived != nil {
			return arrived
		}
		w.left = w.left[1:]
	}
	return nil
}

func (w *wait) leg(op *Operation) *leg { return &op.legs[w.conn.t.place] }

// goesOn looks at the operations that have not arrived, and reports whether to wait no longer for them.
func (w *wait) goesOn() bool {
	var left []*Operation
	moves, mine, silent, behind := false, false, false, false
	for _, op := range w.left {
		if w.leg(op).wait() == nil {
			continue
		}
		sent := w.leg(op).sent()
		if sent == nil { // it waits, too
			behind = true
			left = append(left, op)
			continue
		}
		switch w.looker.Look(w.conn.ctx, sent.conn, w.conn.connection()) {
		case Seeing:
			if op.Snapshot && !w.redefines {
				op.passed.Store(true)
				continue
			}
			moves = true
		case Working:
			moves = true
		case Silent:
			moves, silent = true, true // it may be moving
		case Yielding:
			mine = true
			sent.stop()
		case Stopping:
			sent.stop()
		}
		left = append(left, op)
	}
	w.left = left
	w.noteSilence(silent)
	if len(left) == 0 || mine && !moves {
		return true
	}
	return w.stands(moves, behind)
}

// noteSilence records since when the target has not told what it does.
func (w *wait) noteSilence(silent bool) {
	switch {
	case !silent:
		w.silent = time.Time{}
	case w.silent.IsZero():
		w.silent = time.Now()
	}
}

// stands reports whether nothing has moved for too long. Behind operations that wait, too, the limits are
// twice as high, so that these go on first.
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
	return !w.stopped.IsZero() && w.looks >= times*stoppedLooks && now.Sub(w.stopped) > time.Duration(times)*maxStopped*w.conn.t.bound
}

// inflight holds the operations that a target connection has sent and that are not answered.
type inflight struct {
	conn Conn
	ops  []*Operation
}

// stop records that the sent operations wait for others, so their latency is not judged.
func (s *inflight) stop() {
	for _, op := range s.ops {
		op.stopped.Store(true)
	}
}
