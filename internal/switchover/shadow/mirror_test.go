package shadow

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/test/testenv"
)

// willing is a Protocol whose targets answer all operations at once. Its Readers are mute.
type willing struct{}

func (willing) Reader() Reader                              { return &mute{} }
func (willing) Dial(context.Context, *Target) (Conn, error) { return willing{}, nil }
func (willing) Close() error                                { return nil }

func (willing) Send(ops []*Operation, _ time.Time, answered func(int, Answer)) error {
	for i := range ops {
		answered(i, Answer{})
	}
	return nil
}

// mute is a Reader without operations that fails when the client sends quit.
type mute struct{}

func (*mute) Request(b []byte, _ time.Time) error {
	if string(b) == "quit" {
		return errors.New("enough")
	}
	return nil
}
func (*mute) Reply([]byte, time.Time) ([]*Operation, error) { return nil, nil }
func (*mute) Held() int64                                   { return 0 }

func newWillingMirror(t *testing.T) *mirror {
	t.Helper()
	m := newMirror(Config{Protocol: willing{}}.withDefaults(), newBudget(128*MiB), func(_ *Target, err error) { t.Error(err) })
	t.Cleanup(func() {
		for _, target := range m.targets {
			target.settle()
		}
	})
	return m
}

// The order keeps operations that are done at both targets only up to a share of the limit.
func TestOrderKeepsAShareOfTheLimit(t *testing.T) {
	m := newWillingMirror(t)
	submit := func(key string) *Operation {
		op := &Operation{Kind: Write, Keys: []string{key}, Request: make([]byte, MiB)}
		m.submit(t.Context(), 1, []*Operation{op})
		return op
	}
	var all []*Operation
	for i := range 500 {
		all = append(all, submit(fmt.Sprint(i)))
	}
	for _, op := range all {
		for !op.over() {
			time.Sleep(time.Millisecond)
		}
	}
	for i := range 128 / tidyShare { // their ends are noticed when a share of the limit has been submitted
		submit(fmt.Sprint(500 + i))
	}
	last := submit("last")
	var kept int64
	for _, n := range m.order.all.parts {
		if n.write != nil && n.write != last && n.write.over() {
			kept += n.write.size
		}
	}
	if kept > m.budget.limit/4 {
		t.Errorf("%d bytes are kept of what is over, of a limit of %d", kept, m.budget.limit)
	}
}

// Answers of targets are in memory while they are read, so they count.
func TestAnswersCount(t *testing.T) {
	op := &Operation{Expected: MiB}
	if n := op.answerSize(); n < targets*MiB {
		t.Errorf("an operation whose answer has a MiB counts %d", n)
	}
}

// hoard is a Reader that buffers all its bytes.
type hoard struct {
	mute
	held int64
}

func (h *hoard) Request(b []byte, _ time.Time) error { h.held += int64(len(b)); return nil }
func (h *hoard) Held() int64                         { return h.held }

type hoarding struct{ willing }

func (hoarding) Reader() Reader { return &hoard{} }

// A mirror that is off before the run began, as after a failed self-test, holds no memory: neither for queued
// pieces nor for Readers of clients that are still connected.
func TestAMirrorThatIsOffKeepsNothing(t *testing.T) {
	r := New(Config{Protocol: hoarding{}})
	read, queued := &clientConn{number: 1}, &clientConn{number: 2}
	r.follow()
	r.tap.put(read, memory.FromClient, make([]byte, 1024))
	for range 2 { // after the second call the piece has been read
		r.mirror.do(t.Context(), func() {})
	}
	if r.Held() <= 1024 {
		t.Fatalf("%d bytes are held", r.Held())
	}
	busy, off := make(chan struct{}), make(chan struct{})
	go r.mirror.do(t.Context(), func() { close(busy); <-off })
	<-busy
	r.tap.put(queued, memory.FromClient, make([]byte, 1024))
	r.Off("the run did not begin")
	close(off)
	<-r.gone
	for _, c := range []*clientConn{read, queued} {
		r.tap.put(c, memory.FromClient, make([]byte, 1024))
		r.tap.end(c)
	}
	if r.Held() != 0 || len(r.tap.take(nil)) > 0 {
		t.Errorf("%d bytes are held", r.Held())
	}
}

// A connection beyond the limit of file descriptors is not followed; one that ends makes room.
func TestConnectionsBeyondTheFiles(t *testing.T) {
	m := newWillingMirror(t)
	m.maxOpen = 1
	a, b, c := &clientConn{number: 1}, &clientConn{number: 2}, &clientConn{number: 3}
	for _, conn := range []*clientConn{a, b} {
		m.handle(t.Context(), piece{conn: conn, from: memory.FromClient, bytes: []byte("x")})
	}
	m.handle(t.Context(), piece{conn: a})
	m.handle(t.Context(), piece{conn: b})
	m.handle(t.Context(), piece{conn: c, from: memory.FromClient, bytes: []byte("x")})
	if a.abandoned || !b.abandoned || c.abandoned || m.lost.Load() != 1 {
		t.Errorf("given up: %v, %v, %v; %d counted", a.abandoned, b.abandoned, c.abandoned, m.lost.Load())
	}
}

// The held operation of a connection is sent, with the connection's state, before the connection is given up.
func TestGivenConnectionsWakeFirst(t *testing.T) {
	m := newWillingMirror(t)
	conn := &clientConn{number: 7}
	m.handle(t.Context(), piece{conn: conn, from: memory.FromClient, bytes: []byte("x")})
	m.arrive(t.Context(), 7, time.Now(), []*Operation{{Kind: Write, Keys: []string{"k"}, WasBlocked: true}})
	m.handle(t.Context(), piece{conn: conn, from: memory.FromClient, bytes: []byte("quit")})
	if len(m.blocked) > 0 || m.submitted.Load() != 1 || len(m.targets[control].conns) > 0 {
		t.Errorf("%d wait, %d were submitted, %d lanes are left", len(m.blocked), m.submitted.Load(), len(m.targets[control].conns))
	}
}

// hanging is a Protocol whose control answers at once and whose test target never does.
type hanging struct {
	willing
	closed context.Context // nil: it answers
	close  func()
}

func (hanging) Dial(_ context.Context, t *Target) (Conn, error) {
	if t.place == control {
		return hanging{}, nil
	}
	closed, cancel := context.WithCancel(context.Background())
	return hanging{closed: closed, close: cancel}, nil
}

func (h hanging) Send(ops []*Operation, deadline time.Time, answered func(int, Answer)) error {
	if h.closed == nil {
		return h.willing.Send(ops, deadline, answered)
	}
	<-h.closed.Done()
	return net.ErrClosed
}

func (h hanging) Close() error {
	if h.closed != nil {
		h.close()
	}
	return nil
}

// Operations under way when the mirror is turned off count at neither target: the run is not void.
func TestOffIsNoDifference(t *testing.T) {
	r := New(Config{Protocol: hanging{}})
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ops := []*Operation{{Kind: Write, Keys: []string{"a"}}, {Kind: Write, Keys: []string{"b"}}}
	r.mirror.do(t.Context(), func() { r.mirror.submit(r.ctx, 1, ops) })
	if answered := ops[1].legs[control].wait(); answered != nil {
		<-answered
	}
	r.Off("enough")
	<-r.Over()
	if got := r.Report(); got.Outcome != "INCONCLUSIVE" || got.Compared.UnderWay != 2 || got.Compared.Lost != [targets]uint64{} || got.Ended != "enough" {
		t.Errorf("%s %q: %+v", got.Outcome, got.Reasons, got.Compared)
	}
}

// A tap that turns itself off ends the run, which reports why.
func TestSlowTapEndsTheRun(t *testing.T) {
	r := New(Config{Protocol: willing{}, Bound: time.Nanosecond})
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		c := &clientConn{}
		r.tap.put(c, memory.FromClient, make([]byte, 1024))
		r.tap.end(c)
	}
	testenv.Eventually(t, "the run is over", func() bool {
		select {
		case <-r.Over():
			return true
		default:
			return false
		}
	})
	if why := r.Report().Ended; why == "" || r.Held() > 0 {
		t.Errorf("it ended because of %q, and holds %d bytes", why, r.Held())
	}
}

// A run is void if both targets refuse what production executed, although their answers are alike.
func TestTargetsThatRefuse(t *testing.T) {
	r := New(Config{Protocol: willing{}})
	for i := range 1000 {
		op := &Operation{Kind: Write, Name: "EVALSHA"}
		if i < 20 {
			op.answers = [targets]Answer{{Error: "NOSCRIPT"}, {Error: "NOSCRIPT"}}
		}
		r.mirror.compare.add(op)
	}
	r.voidWhatDiffers()
	if got := r.Report(); got.Outcome != "VOID" || got.Compared.Refused != 20 || got.Refused["EVALSHA: NOSCRIPT"] != 20 {
		t.Errorf("%s, %+v, %v", got.Outcome, got.Compared, got.Refused)
	}
}

// ended counts Readers whose End was not called.
type ended struct {
	willing
	left *int
}

func (e ended) Reader() Reader { *e.left++; return &ending{left: e.left} }

type ending struct {
	mute
	left *int
}

func (e *ending) End() []*Operation { *e.left--; return nil }

// A Reader's End is called, even if its connection was given up, or ended before the run began.
func TestReadersAreToldTheEnd(t *testing.T) {
	left := 0
	m := newMirror(Config{Protocol: ended{left: &left}}.withDefaults(), newBudget(128*MiB), func(_ *Target, err error) { t.Error(err) })
	for _, following := range []bool{true, false} {
		for _, said := range []string{"hello", "quit"} {
			m.following = following
			c := &clientConn{number: 1}
			m.handle(t.Context(), piece{conn: c, from: memory.FromClient, bytes: []byte(said)})
			m.handle(t.Context(), piece{conn: c})
			if left != 0 {
				t.Errorf("%d readers were not told (%q, before the run: %v)", left, said, following)
			}
			left = 0
		}
	}
}

// Target connections whose client has disconnected are charged to the budget until their target lets them
// end, and count as connections to it.
func TestLanesOfGoneConnections(t *testing.T) {
	m := newMirror(Config{Protocol: hanging{}}.withDefaults(), newBudget(128*MiB), func(*Target, error) {})
	ctx, cancel := context.WithCancel(t.Context())
	for conn := uint64(1); conn <= 10; conn++ {
		m.submit(ctx, conn, []*Operation{{Kind: Write, Keys: []string{"k"}}})
		m.end(ctx, &clientConn{number: conn})
	}
	if held, left := m.budget.holds(), m.leaving(); held < 10*targetConnBytes || left != 10 {
		t.Errorf("%d bytes are held of %d connections", held, left)
	}
	cancel()
	for _, target := range m.targets {
		target.settle()
	}
	if held, left := m.budget.holds(), m.leaving(); held != 0 || left != 0 {
		t.Errorf("%d bytes are held of %d connections when all is over", held, left)
	}
}
