package shadow

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// Target is one of the two servers that traffic is mirrored to.
type Target struct {
	Name     string // "control" or "test"
	Upstream gateway.Upstream

	place    int
	protocol Protocol
	patience time.Duration // for an answer, beside production's own time
	bound    time.Duration // that an operation waits for others
	finished func(*Operation)
	hold     func(bytes int64) // of what is left of connections that have ended
	trouble  func(*Target, error)

	// The mirror's goroutine's, by the number of the client's connection.
	lanes map[uint64]*lane
	live  sync.WaitGroup

	leaving atomic.Int64 // lanes whose connection has ended, and that are not done

	planted atomic.Pointer[Plant] // by the self-test
	sent    atomic.Uint64
	lost    atomic.Uint64
	forced  atomic.Uint64
}

// Plant is a fault that the self-test puts into the tool's own path to a target.
type Plant struct {
	Slower float64               // latencies grow by this fraction
	Wrong  func(*Operation) bool // whose answer is damaged
	Lose   func(*Operation) bool // that is answered as if it were sent, but is not
	Drop   func(*Operation) bool // that is lost, and counted as such
}

// burst is operations of a connection that are sent in one piece.
type burst struct {
	ops    []*Operation
	before []*Operation // that must be done at the target first
}

// push hands a burst to the lane of its connection. One that is made anew says state first.
func (t *Target) push(ctx context.Context, conn uint64, state []*Operation, b burst) {
	l := t.lanes[conn]
	if l == nil {
		l = newLane(ctx, t, state)
		t.lanes[conn] = l
		t.live.Go(l.run)
	}
	for _, op := range b.ops {
		op.legs[t.place].assign(l)
	}
	l.push(b)
}

// end lets the lane of a connection finish what it has, and forgets the connection.
func (t *Target) end(conn uint64) {
	if l := t.lanes[conn]; l != nil {
		delete(t.lanes, conn)
		l.end()
	}
}

// settle ends all lanes when they have sent what they have. What comes after that goes to new
// ones.
func (t *Target) settle() {
	for conn, l := range t.lanes {
		delete(t.lanes, conn)
		l.end()
	}
	t.live.Wait()
}

// answer notes what became of an operation.
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

// timesProduction is how many times as long as production a target may take.
const timesProduction = 10

// patienceFor is how long a burst may take. Its operations were answered in one piece, so the one that took longest was under way all the time.
func (t *Target) patienceFor(ops []*Operation) time.Duration {
	var took time.Duration
	for _, op := range ops {
		took = max(took, op.Production.Took)
	}
	return t.patience + timesProduction*took
}

// String is for logs.
func (t *Target) String() string { return fmt.Sprintf("%s (%s)", t.Name, t.Upstream) }

// newTarget returns one whose answers go to m.
func newTarget(name string, place int, up gateway.Upstream, cfg *Config, trouble func(*Target, error)) *Target {
	return &Target{
		Name: name, Upstream: up, place: place, protocol: cfg.Protocol, patience: cfg.Patience, bound: cfg.Wait, trouble: trouble,
		lanes: map[uint64]*lane{}, hold: func(int64) {},
	}
}
