package pack

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

// distant is a server with one database of 40,000 keys. Reading ten of them takes 10 ms, on four workers
// concurrently. PING takes ping, or later from becomesSlow on.
type distant struct {
	database
	ping, later time.Duration

	mu    sync.Mutex
	ended time.Duration // last read of values, since the beginning
}

const becomesSlow = time.Second // after the beginning of a test

var began = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of every bubble

func (d *distant) Ping(ctx context.Context) error {
	if time.Since(began) < becomesSlow {
		return sleep(ctx, nil, d.ping)
	}
	return sleep(ctx, nil, d.later)
}

func (d *distant) Read(ctx context.Context, keys [][]byte, o store.ReadOptions, emit func(*store.Value) error) error {
	time.Sleep(10 * time.Millisecond)
	d.mu.Lock()
	d.ended = time.Since(began)
	d.mu.Unlock()
	return d.database.Read(ctx, keys, o, emit)
}

// walked runs over the nodes in pages of ten keys, and returns the least duty reported.
func walked(t *testing.T, o Options, nodes ...*distant) (least float64) {
	t.Helper()
	least = 1
	var mu sync.Mutex
	o.Task, o.Step = newSeal(t, policy.Options{Rules: []policy.Rule{{Key: "*", Setting: zstd(1)}}}), 10
	o.Tell = func(e Event) {
		if mu.Lock(); e.Progress != nil {
			least = min(least, e.Progress.Duty)
		}
		mu.Unlock()
	}
	for _, d := range nodes {
		o.Targets = append(o.Targets, store.Target{Node: d, Space: d})
	}
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return least
}

func newDistant(name string, ping, later time.Duration) *distant {
	return &distant{database: database{name: name, keys: 40_000, value: func(int) []byte { return []byte("plain") }}, ping: ping, later: later}
}

// A node that always answers later than another one, being further away, does not count as slow.
func TestPaceOfDistantNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near := newDistant("near", 200*time.Microsecond, 200*time.Microsecond)
		far := newDistant("far", 1500*time.Microsecond, 1500*time.Microsecond)
		if duty := walked(t, Options{}, near, far); duty < 1 {
			t.Errorf("duty fell to %v though no node became slower", duty)
		}
	})
}

// A node that becomes slow gets less work, and others no less.
func TestPaceOfSlowNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		well, slow := newDistant("well", time.Millisecond, time.Millisecond), newDistant("slow", time.Millisecond, 50*time.Millisecond)
		if duty := walked(t, Options{MaxLatency: 20 * time.Millisecond}, well, slow); duty > 0.1 {
			t.Errorf("duty %v is reported, not that of the slow node", duty)
		}
		if well.ended > 10100*time.Millisecond || slow.ended < 20*time.Second {
			t.Errorf("the one that is well took %v, the slow one %v", well.ended, slow.ended)
		}
	})
}

// All nodes share the limits. What a slow one does not use is left to others.
func TestPaceLimitsAreShared(t *testing.T) {
	for later, most := range map[time.Duration]time.Duration{time.Millisecond: 40100 * time.Millisecond, 50 * time.Millisecond: 24 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			well, other := newDistant("well", time.Millisecond, time.Millisecond), newDistant("other", time.Millisecond, later)
			walked(t, Options{KeysPerSecond: 2000, MaxLatency: 20 * time.Millisecond}, well, other)
			if last := max(well.ended, other.ended); last < 39900*time.Millisecond || well.ended > most {
				t.Errorf("PING of %v: 80,000 keys took %v, those of the node that is well %v", later, last, well.ended)
			}
		})
	}
}

func TestPaceLimits(t *testing.T) {
	synctest.Test(t, paceLimits)
}

func paceLimits(t *testing.T) {
	p := newPace(&limits{keys: 1000, bytes: 1e6})
	rest := func(keys int, bytes int64) time.Duration {
		d := p.after(keys, bytes, 0)
		time.Sleep(d)
		return d
	}
	if d := rest(100, 0); d != 100*time.Millisecond {
		t.Errorf("100 keys: %v", d)
	}
	if d := rest(100, 500_000); d != 500*time.Millisecond {
		t.Errorf("500 kB: %v", d)
	}
	time.Sleep(time.Minute) // idle time is not made up for
	total := time.Duration(0)
	for range 50 {
		total += rest(200, 0)
	}
	if total != 10*time.Second {
		t.Errorf("10,000 keys took %v", total)
	}
	// Two workers share the limit: the second waits for both pages.
	a, b := p.after(100, 0, 0), p.after(100, 0, 0)
	if a != 100*time.Millisecond || b != 200*time.Millisecond {
		t.Errorf("two workers rest %v, %v", a, b)
	}
}

func TestPaceBacksOff(t *testing.T) {
	p := newPace(&limits{})
	measure := func(times int, latency time.Duration) {
		for range times {
			p.recordLatency(latency, 0)
		}
	}
	measure(20, 200*time.Microsecond)
	if p.current() != 1 || p.after(100, 100, time.Second) != 0 {
		t.Errorf("duty %v on a calm server", p.current())
	}
	measure(20, 900*time.Microsecond) // above twice the baseline, by less than a millisecond
	measure(3, 50*time.Millisecond)   // single ones
	if p.current() != 1 {
		t.Errorf("duty %v after nothing much", p.current())
	}
	measure(1, 50*time.Millisecond)
	if p.current() != 0.5 {
		t.Errorf("duty %v, want half", p.current())
	}
	if d := p.after(1, 1, time.Second); d != time.Second {
		t.Errorf("rest %v after a second's work", d)
	}
	measure(4*window, 50*time.Millisecond)
	if p.current() != minDuty {
		t.Errorf("duty %v, want the least", p.current())
	}
	measure(window, 200*time.Microsecond)
	if d := p.current(); d <= minDuty || d > 0.1 {
		t.Errorf("duty %v: it should recover slowly", d)
	}
	measure(60, 200*time.Microsecond)
	if p.current() != 1 {
		t.Errorf("duty %v: it should recover", p.current())
	}
	measure(20*window, 20*time.Millisecond) // even with hardly any work: the node itself is slower now
	if p.current() < 0.5 {
		t.Errorf("duty %v on a server that is always slow", p.current())
	}
	limited := newPace(&limits{})
	for range 3 * window {
		limited.recordLatency(3*time.Millisecond, 2*time.Millisecond)
	}
	if limited.current() > 0.25 {
		t.Errorf("duty %v on a server over the operator's limit from the start", limited.current())
	}
}
