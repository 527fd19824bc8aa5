package shadow

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/test/testenv"
)

// willing is a Protocol whose targets answer all that they are sent, at once. Its Readers understand one request.
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

// mute gives up when it is told to.
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
	m := newMirror(Config{Protocol: willing{}}.withDefaults(), func(_ *Target, err error) { t.Error(err) })
	t.Cleanup(func() {
		for _, target := range m.targets {
			target.settle()
		}
	})
	return m
}

// What is done at both targets is not kept by the order, but for a share of the limit.
func TestOrderKeepsAShareOfTheLimit(t *testing.T) {
	m := newWillingMirror(t)
	for i := range 500 {
		m.submit(t.Context(), 1, []*Operation{{Kind: Write, Keys: []string{fmt.Sprint(i)}, Request: make([]byte, MiB)}})
	}
	var kept int64
	for _, n := range m.order.all.parts {
		if n.write != nil && n.write.over() {
			kept += n.write.size
		}
	}
	if kept > m.limit/4 {
		t.Errorf("%d bytes are kept of what is over, of a limit of %d", kept, m.limit)
	}
}

// Answers of targets are held while they are read, so they count.
func TestAnswersCount(t *testing.T) {
	op := &Operation{Expected: MiB}
	if n := op.weight(); n < targets*MiB {
		t.Errorf("an operation whose answer has a MiB counts %d", n)
	}
}

// A connection beyond those that there are files for is not followed; one that ends makes room.
func TestConnectionsBeyondTheFiles(t *testing.T) {
	m := newWillingMirror(t)
	m.most = 1
	a, b, c := &tapped{number: 1}, &tapped{number: 2}, &tapped{number: 3}
	for _, conn := range []*tapped{a, b} {
		m.handle(t.Context(), piece{conn: conn, from: gateway.FromClient, bytes: []byte("x")})
	}
	m.handle(t.Context(), piece{conn: a})
	m.handle(t.Context(), piece{conn: b})
	m.handle(t.Context(), piece{conn: c, from: gateway.FromClient, bytes: []byte("x")})
	if a.given || !b.given || c.given || m.lost.Load() != 1 {
		t.Errorf("given up: %v, %v, %v; %d counted", a.given, b.given, c.given, m.lost.Load())
	}
}

// What a connection waited with is sent with its state, before it is given up.
func TestGivenConnectionsWakeFirst(t *testing.T) {
	m := newWillingMirror(t)
	conn := &tapped{number: 7}
	m.handle(t.Context(), piece{conn: conn, from: gateway.FromClient, bytes: []byte("x")})
	m.arrive(t.Context(), 7, time.Now(), []*Operation{{Kind: Write, Keys: []string{"k"}, Woken: true}})
	m.handle(t.Context(), piece{conn: conn, from: gateway.FromClient, bytes: []byte("quit")})
	if len(m.woken) > 0 || m.submitted.Load() != 1 || len(m.targets[control].lanes) > 0 {
		t.Errorf("%d wait, %d were submitted, %d lanes are left", len(m.woken), m.submitted.Load(), len(m.targets[control].lanes))
	}
}

// A tap that turns itself off ends the run, which says why.
func TestSlowTapEndsTheRun(t *testing.T) {
	r := New(Config{Protocol: willing{}, Bound: time.Nanosecond})
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		r.tap.put(&tapped{}, gateway.FromClient, make([]byte, 1024))
	}
	testenv.Eventually(t, "the run is over", func() bool {
		select {
		case <-r.Over():
			return true
		default:
			return false
		}
	})
	if why := r.Report().Ended; why == "" || r.tap.held() > 0 {
		t.Errorf("it ended because of %q, and holds %d bytes", why, r.tap.held())
	}
}

// Targets that refuse what production does are alike, and no use.
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
