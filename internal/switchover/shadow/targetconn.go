package shadow

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// targetConn is a target's connection for one connection of a client.
type targetConn struct {
	t        *Target
	ctx      context.Context
	state    []*Operation             // to be sent first
	conn     Conn                     // nil before the first burst
	release  func() bool              // cancels the AfterFunc that closes conn when ctx ends
	broken   bool                     // everything from here on is lost
	inflight atomic.Pointer[inflight] // nil between bursts

	mu     sync.Mutex
	queue  []burst
	ended  bool
	wakeup chan struct{}
}

func newTargetConn(ctx context.Context, t *Target, state []*Operation) *targetConn {
	return &targetConn{t: t, ctx: ctx, state: state, wakeup: make(chan struct{}, 1)}
}

func (l *targetConn) push(b burst) {
	l.mu.Lock()
	l.queue = append(l.queue, b)
	l.mu.Unlock()
	l.signal()
}

// targetConnBytes is charged to the budget for a targetConn from end on. Before that, connectionBytes covers
// it.
const targetConnBytes = 16 << 10

// end lets run return when the queue is empty. It must be called once. From then on, targetConnBytes is charged to the
// budget until run returns.
func (l *targetConn) end() {
	l.t.hold(targetConnBytes)
	l.t.leaving.Add(1)
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.signal()
}

func (l *targetConn) signal() {
	select {
	case l.wakeup <- struct{}{}:
	default:
	}
}

// nextBurst waits for a burst; false: there will be no more.
func (l *targetConn) nextBurst() (burst, bool) {
	for {
		l.mu.Lock()
		if len(l.queue) > 0 {
			b := l.queue[0]
			l.queue[0] = burst{}
			if l.queue = l.queue[1:]; len(l.queue) == 0 {
				l.queue = nil
			}
			l.mu.Unlock()
			return b, true
		}
		ended := l.ended
		l.mu.Unlock()
		if ended {
			return burst{}, false
		}
		<-l.wakeup
	}
}

// run sends bursts until end was called and the queue is empty.
func (l *targetConn) run() {
	defer func() {
		if l.conn != nil {
			l.release()
			_ = l.conn.Close()
		}
		l.t.leaving.Add(-1)
		l.t.hold(-targetConnBytes)
	}()
	for {
		b, ok := l.nextBurst()
		if !ok {
			return
		}
		l.await(b)
		l.send(b.ops)
	}
}

// await waits for the operations before a burst.
func (l *targetConn) await(b burst) {
	looker, looks := l.t.protocol.(Looker)
	if !looks {
		l.awaitBlind(b)
		return
	}
	w := wait{conn: l, looker: looker, left: b.before, called: b.ops[0].legs[l.t.place].called(), pause: l.t.bound}
	w.redefines = slices.ContainsFunc(b.ops, func(op *Operation) bool { return op.Redefines })
	if !w.until() {
		l.force(b.ops)
	}
}

// awaitBlind waits without a Looker. For an operation that may itself wait for this burst it waits no longer
// than the bound.
func (l *targetConn) awaitBlind(b burst) {
	for _, earlier := range b.before {
		arrived := earlier.legs[l.t.place].wait()
		if arrived == nil {
			continue
		}
		var late <-chan time.Time
		if earlier.Blocks {
			late = time.After(l.t.bound)
		}
		if !l.awaitArrival(arrived, late) {
			l.force(b.ops)
		}
	}
}

// force records that operations are sent before those that they should wait for.
func (l *targetConn) force(ops []*Operation) {
	l.t.forced.Add(1)
	for _, op := range ops {
		op.forced[l.t.place].Store(true)
	}
}

// awaitArrival waits until the operation is done or the run ends. It returns false if late fires first.
func (l *targetConn) awaitArrival(arrived <-chan struct{}, late <-chan time.Time) bool {
	select {
	case <-arrived:
	case <-l.ctx.Done():
	case <-late:
		return false
	}
	return true
}

// send sends a burst. Operations that are not answered are lost, and so are all later ones on this
// connection.
func (l *targetConn) send(ops []*Operation) {
	answered := 0
	defer func() {
		for _, op := range ops[answered:] {
			l.t.answer(op, Answer{Lost: true, off: l.ctx.Err() != nil})
		}
	}()
	if l.broken || l.ctx.Err() != nil || !l.connect() {
		return
	}
	plant := l.t.planted.Load()
	if plant != nil {
		ops = plant.keep(l.t, ops)
	}
	if len(ops) == 0 {
		return
	}
	l.inflight.Store(&inflight{l.conn, ops})
	defer l.inflight.Store(nil)
	err := l.conn.Send(ops, time.Now().Add(l.t.patienceFor(ops)), func(i int, a Answer) {
		if plant != nil {
			a = plant.change(ops[i], a)
		}
		l.t.answer(ops[i], a)
		answered = i + 1
	})
	if err != nil {
		l.fail(err)
	}
}

// connection returns the Conn, nil before the first burst. It must be called between bursts.
func (l *targetConn) connection() Conn { return l.conn }

func (l *targetConn) connect() bool {
	if l.conn != nil {
		return true
	}
	c, err := l.t.protocol.Dial(l.ctx, l.t)
	if err != nil {
		l.fail(err)
		return false
	}
	l.conn = c
	l.release = context.AfterFunc(l.ctx, func() { _ = c.Close() })
	if len(l.state) > 0 {
		if err := c.Send(l.state, time.Now().Add(l.t.patience), func(int, Answer) {}); err != nil {
			l.fail(err)
			return false
		}
	}
	return true
}

func (l *targetConn) fail(err error) {
	l.broken = true
	if l.ctx.Err() == nil {
		l.t.trouble(l.t, err)
	}
}
