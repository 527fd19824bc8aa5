package shadow

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
)

// Target is one of the two servers that traffic is mirrored to.
type Target struct {
	Name     string // "control" or "test"
	Upstream endpoint.Upstream

	place    int
	protocol Protocol
	patience time.Duration // for an answer, in addition to production's time
	bound    time.Duration // limit for an operation to wait for others
	finished func(*Operation)
	hold     func(bytes int64) // charges targetConnBytes to the budget, or frees it
	trouble  func(*Target, error)

	// Used by the mirror's goroutine only. The key is the number of the client's connection.
	conns map[uint64]*targetConn
	live  sync.WaitGroup

	leaving atomic.Int64 // target connections that were ended, but are not done

	planted atomic.Pointer[Plant] // by the self-test
	sent    atomic.Uint64
	lost    atomic.Uint64
	forced  atomic.Uint64
}

// burst is a group of operations of a connection that are sent in one piece.
type burst struct {
	ops    []*Operation
	before []*Operation // must be done at the target first
}

// push hands a burst to the targetConn of a client's connection. A new targetConn sends state first.
func (t *Target) push(ctx context.Context, conn uint64, state []*Operation, b burst) {
	l := t.conns[conn]
	if l == nil {
		l = newTargetConn(ctx, t, state)
		t.conns[conn] = l
		t.live.Go(l.run)
	}
	for _, op := range b.ops {
		op.legs[t.place].assign(l)
	}
	l.push(b)
}

// end lets the targetConn of a client's connection finish its operations, and forgets it.
func (t *Target) end(conn uint64) {
	if l := t.conns[conn]; l != nil {
		delete(t.conns, conn)
		l.end()
	}
}

// settle ends all target connections, and waits until their operations are done. Later operations go to new ones.
func (t *Target) settle() {
	for conn, l := range t.conns {
		delete(t.conns, conn)
		l.end()
	}
	t.live.Wait()
}

// answer records the result of an operation.
func (t *Target) answer(op *Operation, a Answer) {
	if a.Lost {
		t.lost.Add(1)
	} else {
		t.sent.Add(1)
	}
	op.answers[t.place] = a
	t.finished(op)
	op.legs[t.place].done()
}

// timesProduction is the multiple of production's time that a target may take, in addition to its patience.
const timesProduction = 10

// patienceFor returns how long a burst may take. Production answered its operations in one piece, so the
// slowest one ran all the time.
func (t *Target) patienceFor(ops []*Operation) time.Duration {
	var took time.Duration
	for _, op := range ops {
		took = max(took, op.Production.Took)
	}
	return t.patience + timesProduction*took
}

// String returns name and address, for logs.
func (t *Target) String() string { return fmt.Sprintf("%s (%s)", t.Name, t.Upstream) }

// newTarget returns a Target. The caller sets finished.
func newTarget(name string, place int, up endpoint.Upstream, cfg *Config, trouble func(*Target, error)) *Target {
	return &Target{
		Name: name, Upstream: up, place: place, protocol: cfg.Protocol, patience: cfg.Patience, bound: cfg.Wait, trouble: trouble,
		conns: map[uint64]*targetConn{}, hold: func(int64) {},
	}
}
