package shadow

import (
	"context"
	"time"
)

// Ahead has op sent at the target before the operations that it waits for there. It is called by a Conn, own,
// that has undone an answered operation and will repeat it, because production had executed op first.
//
// It returns true if op is done at the target; false if op waits for a lock, was not sent in time, or ctx has
// ended.
func (t *Target) Ahead(ctx context.Context, op *Operation, own Conn) bool {
	l := &op.legs[t.place]
	l.call()
	looker, _ := t.protocol.(Looker)
	for range maxStopped {
		arrived := l.wait()
		if arrived == nil {
			return true
		}
		select {
		case <-arrived:
			return true
		case <-ctx.Done():
			return false
		case <-time.After(t.bound):
		}
		sent := l.sent()
		if sent == nil || looker == nil {
			continue
		}
		if p := looker.Look(ctx, sent.conn, own); p == Stopping || p == Yielding {
			sent.stop()
			return false
		}
	}
	return false
}

// call lets an operation go before those that it waits for.
func (l *leg) call() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ahead {
		l.ahead = true
		if l.calls != nil {
			close(l.calls)
		}
	}
}

// called returns a channel that is closed by call.
func (l *leg) called() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		l.calls = make(chan struct{})
		if l.ahead {
			close(l.calls)
		}
	}
	return l.calls
}

// assign records the target connection that an operation goes to.
func (l *leg) assign(to *targetConn) {
	l.mu.Lock()
	l.conn = to
	l.mu.Unlock()
}

// sent returns the unanswered operations that the operation's target connection has sent; nil: none.
func (l *leg) sent() *inflight {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return nil
	}
	return l.conn.inflight.Load()
}
