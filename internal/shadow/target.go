package shadow

import (
	"context"
	"fmt"
	"slices"
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
	patience time.Duration // for an answer
	bound    time.Duration // that an operation waits for others
	finished func(*Operation)
	trouble  func(*Target, error)

	// The mirror's goroutine's, by the number of the client's connection.
	lanes map[uint64]*lane
	state map[uint64][]*Operation // what a lane that is made anew has to say first
	live  sync.WaitGroup

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

// push hands a burst to the lane of its connection.
func (t *Target) push(ctx context.Context, conn uint64, b burst) {
	l := t.lanes[conn]
	if l == nil {
		l = newLane(ctx, t, t.state[conn])
		t.lanes[conn] = l
		t.live.Go(l.run)
	}
	for _, op := range b.ops {
		op.legs[t.place].lane = l
	}
	l.push(b)
	for _, op := range b.ops {
		if op.Kind == State {
			t.remember(conn, op)
		}
	}
}

// remember keeps the last operation of each name that the state of a connection is made of.
func (t *Target) remember(conn uint64, op *Operation) {
	kept := slices.DeleteFunc(slices.Clone(t.state[conn]), func(o *Operation) bool { return o.Name == op.Name })
	t.state[conn] = append(kept, op)
}

// end lets the lane of a connection finish what it has, and forgets the connection.
func (t *Target) end(conn uint64) {
	if l := t.lanes[conn]; l != nil {
		delete(t.lanes, conn)
		l.end()
	}
	delete(t.state, conn)
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

// String is for logs.
func (t *Target) String() string { return fmt.Sprintf("%s (%s)", t.Name, t.Upstream) }

// newTarget returns one whose answers go to m.
func newTarget(name string, place int, up gateway.Upstream, cfg *Config, trouble func(*Target, error)) *Target {
	return &Target{
		Name: name, Upstream: up, place: place, protocol: cfg.Protocol, patience: cfg.Patience, bound: cfg.Wait, trouble: trouble,
		lanes: map[uint64]*lane{}, state: map[uint64][]*Operation{},
	}
}
