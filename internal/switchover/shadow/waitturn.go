package shadow

import (
	"errors"
	"time"
)

// wait lets an operation wait at a target for the operations before it, which may in turn wait for locks.
//
// If one of them waits for a lock that the operation's own connection holds, the operation does not wait for
// that one, nor for those behind it. In production the lock was released before the other operation was
// answered, although the answer of the releasing operation was seen later. Connections that do not hold the
// lock keep waiting, so the order stays the same. If the lock is not released for long, locks are held
// differently at the targets than in production: then all target connections stop waiting.
type wait struct {
	conn   *targetConn
	looker Looker
	left   []*Operation // not arrived
	called <-chan struct{}

	redefines bool // a burst's operation is seen even by reads with an older snapshot

	pause   time.Duration
	stopped time.Time // since when nothing has moved; zero: something moves
	looks   int       // number of looks since then that found nothing moving
	silent  time.Time // since when the target does not answer Look; zero: it does
}

var errSilent = errors.New("it neither answers nor reports what it is doing")

// The pause between two looks grows up to maxLooks times the bound (Config.Wait). If nothing has moved for maxStopped
// times the bound and stoppedLooks looks, all target connections stop waiting. The time alone would not do: a busy
// machine may have looked only once.
const (
	maxLooks     = 8
	maxStopped   = 100
	stoppedLooks = 20
)

// until waits for all operations before this one, or until this one is called (see leg.call). It returns
// false if the operation stops waiting for some of them.
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

// goesOn asks the target about the operations that have not arrived, and reports whether to stop waiting for
// them.
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

// noteSilence records since when the target does not answer Look.
func (w *wait) noteSilence(silent bool) {
	switch {
	case !silent:
		w.silent = time.Time{}
	case w.silent.IsZero():
		w.silent = time.Now()
	}
}

// stands reports whether nothing has moved for too long. Behind operations that wait, too, the limits are
// twice as high, so that those stop waiting first.
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
