package pack

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

// endless is a store whose scan never ends, of one key that is never compressed. It calls bug, unless nil,
// with the name of each called method.
type endless struct {
	read func() error
	bug  func(method string)
}

func (e endless) called(method string) {
	if e.bug != nil {
		e.bug(method)
	}
}

func (endless) Name() string                                 { return "endless/0" }
func (endless) DB() string                                   { return "0" }
func (endless) Share(string) float64                         { return 0 }
func (endless) Memory(context.Context) (store.Memory, error) { return store.Memory{}, nil }

func (e endless) RunID(context.Context) (string, error) {
	e.called("RunID")
	return "1", nil
}

func (e endless) Ping(context.Context) error {
	e.called("Ping")
	return nil
}

func (e endless) Keys(context.Context) (int64, error) {
	e.called("Keys")
	return 1, nil
}

func (e endless) Page(ctx context.Context, _ string, _ store.ScanOptions) (store.Page, error) {
	e.called("Page")
	time.Sleep(time.Millisecond)
	return store.Page{Keys: [][]byte{[]byte("key")}, Next: "1"}, ctx.Err()
}

func (e endless) Read(context.Context, [][]byte, store.ReadOptions, func(*store.Value) error) error {
	return e.read()
}

func (endless) Reread(context.Context, []*store.Value) ([]*store.Value, error)   { return nil, nil }
func (endless) Replace(context.Context, []store.Change) ([]store.Outcome, error) { return nil, nil }
func (endless) Rebuild(context.Context, [][]byte) (int, error)                   { return 0, nil }
func (endless) Usage(context.Context, [][]byte) ([]int64, error)                 { return nil, nil }

// turns is a lease. While wait is set, another holder has it; while gone is set, it is lost.
type turns struct {
	bug             func(method string) // see endless
	wait, gone      atomic.Bool
	taken, finished atomic.Int32
}

func (l *turns) Acquire(context.Context, time.Duration) (time.Duration, error) {
	if l.wait.Load() {
		return time.Millisecond, nil
	}
	l.taken.Add(1)
	return 0, nil
}

func (l *turns) Renew(context.Context, time.Duration) (bool, error) {
	if l.bug != nil {
		l.bug("Keep")
	}
	return !l.gone.Load(), nil
}

func (l *turns) Release(context.Context, time.Duration) error {
	l.finished.Add(1)
	return nil
}

// background runs a Background over an endless store until the test ends.
func background(t *testing.T, lease *turns, read func() error) (*Background, *atomic.Pointer[policy.Policy]) {
	t.Helper()
	return pausable(t, lease, nil, read)
}

// pausable is background with a store.Pause.
func pausable(t *testing.T, lease *turns, pause store.Pause, read func() error) (*Background, *atomic.Pointer[policy.Policy]) {
	t.Helper()
	var rules atomic.Pointer[policy.Policy]
	rules.Store(rulesFor(t, "key"))
	b := NewBackground(BackgroundOptions{
		Pause:   pause,
		Current: func() Job { return Job{Policy: rules.Load(), Every: 5 * time.Millisecond} },
		Open: func(context.Context, *policy.Policy) (Session, error) {
			s := endless{read, lease.bug}
			return Session{
				Name: "endless", Targets: []store.Target{{Node: s, Space: s}}, Lease: func(string) store.Lease { return lease }, Close: func() {},
				Seal: func(p *policy.Policy) *Seal {
					return &Seal{Policy: p, Sealer: envelope.NewSealer(envelope.SealerOptions{Engine: codec.New(codec.Options{})})}
				},
			}, nil
		},
	})
	b.pollInterval, b.leaseHold = 2*time.Millisecond, 8*time.Millisecond
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		b.Run(t.Context(), stop)
	}()
	t.Cleanup(func() {
		close(stop)
		<-ended
		if s := b.Status(); s.Running || lease.taken.Load() != lease.finished.Load() {
			t.Errorf("ended with %+v, turns taken %d, given back %d", s, lease.taken.Load(), lease.finished.Load())
		}
	})
	return b, &rules
}

func rulesFor(t *testing.T, key string) *policy.Policy {
	t.Helper()
	p, err := policy.New(policy.Options{Rules: []policy.Rule{{Key: key, Setting: codec.Setting{Codec: codec.LZ4}}}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 120_000 {
		if ok() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

func fine() error { return nil }

func TestBackgroundWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := &turns{}
		lease.wait.Store(true)
		b, _ := background(t, lease, fine)
		time.Sleep(20 * time.Millisecond)
		if s := b.Status(); s.Running || !s.Wanted {
			t.Errorf("%+v", s)
		}
		lease.wait.Store(false)
		until(t, "it runs", func() bool { return b.Status().Report.Keys > 10 })
		lease.gone.Store(true)
		until(t, "it ends with the turn", func() bool {
			s := b.Status()
			return s.Passes[PassFailed] > 0 && s.Trouble == errLeaseLost.Error()
		})
	})
}

func TestBackgroundFollowsThePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, rules := background(t, &turns{}, fine)
		until(t, "it runs", func() bool { return b.Status().Running })
		rules.Store(rulesFor(t, "key")) // reloaded, with the same effect
		keys := b.Status().Report.Keys
		until(t, "it continues", func() bool { return b.Status().Report.Keys > keys+10 })
		if n := b.Status().Passes[PassInterrupted]; n != 0 {
			t.Errorf("begun anew %d times for the same rules", n)
		}
		rules.Store(rulesFor(t, "k*"))
		until(t, "it begins anew", func() bool { return b.Status().Passes[PassInterrupted] == 1 && b.Status().Running })
		off := *rulesFor(t, "k*")
		off.Off = true
		rules.Store(&off)
		until(t, "it stops", func() bool { s := b.Status(); return !s.Running && !s.Wanted })
		keys = b.Status().Report.Keys
		time.Sleep(20 * time.Millisecond)
		if now := b.Status().Report.Keys; now != keys || keys == 0 {
			t.Errorf("%d keys, then %d", keys, now)
		}
	})
}

// buggy panics when the set method is called.
type buggy struct{ method atomic.Value }

func (b *buggy) called(method string) {
	if b.method.Load() == method {
		panic("on fire")
	}
}

// Get implements store.Pause.
func (b *buggy) Get(context.Context) (time.Time, bool, error) {
	b.called("Get")
	return time.Time{}, false, nil
}

func (*buggy) Set(context.Context, time.Time) (time.Time, error) { return time.Time{}, nil }
func (*buggy) Clear(context.Context) error                       { return nil }

// A bug in any goroutine of a pass ends that pass, and the next one works.
func TestBackgroundSurvivesBugs(t *testing.T) {
	for _, method := range []string{"Page", "Ping", "Keys", "Keep", "Get"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bug := &buggy{}
				b, _ := pausable(t, &turns{bug: bug.called}, bug, fine)
				until(t, "it runs", func() bool { return b.Status().Report.Keys > 10 })
				bug.method.Store(method)
				if method == "Keys" || method == "Get" { // called before a pass; in a pass Get is harmless
					bug.method.Store("Page")
					until(t, "the pass ends", func() bool { return b.Status().Passes[PassFailed] > 0 })
					bug.method.Store(method)
				}
				failed := b.Status().Passes[PassFailed]
				until(t, "it fails, again", func() bool {
					s := b.Status()
					return s.Passes[PassFailed] > failed+1 && strings.Contains(s.Trouble, "on fire") && !s.Running
				})
				bug.method.Store("none")
				keys := b.Status().Report.Keys
				until(t, "it continues", func() bool { return b.Status().Report.Keys > keys+10 })
			})
		})
	}
}

// TestBackgroundSurvives checks that a Background continues after errors and bugs.
func TestBackgroundSurvives(t *testing.T) {
	for name, trouble := range map[string]func() error{
		"an error": func() error { return fmt.Errorf("the store: %w", errors.New("on fire")) },
		"a bug":    func() error { panic("on fire") },
	} {
		t.Run(name, func(t *testing.T) {
			var well atomic.Bool
			b, _ := background(t, &turns{}, func() error {
				if well.Load() {
					return nil
				}
				return trouble()
			})
			until(t, "it fails, again", func() bool { return b.Status().Passes[PassFailed] > 1 })
			well.Store(true)
			until(t, "it continues", func() bool { return b.Status().Report.Keys > 10 })
		})
	}
}

// replaceable is a database whose values can be replaced. It keeps none, so that each pass finds the same values.
type replaceable struct{ *database }

func (replaceable) Usage(_ context.Context, keys [][]byte) ([]int64, error) {
	return make([]int64, len(keys)), nil
}

func (replaceable) Replace(_ context.Context, changes []store.Change) ([]store.Outcome, error) {
	all := make([]store.Outcome, len(changes))
	for i := range all {
		all[i].Replaced = true
	}
	return all, nil
}

// Passes that replace values add up. Passes that only estimate find the same values each time, so the last one counts.
func TestBackgroundEstimatesDoNotAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 1000
		d := replaceable{&database{name: "0", keys: keys, value: func(int) []byte { return []byte(strings.Repeat("value ", 100)) }}}
		rules := rulesFor(t, "*")
		var dry atomic.Bool
		dry.Store(true)
		b := NewBackground(BackgroundOptions{
			Current: func() Job { return Job{Policy: rules, DryRun: dry.Load(), Every: time.Minute} },
			Open: func(context.Context, *policy.Policy) (Session, error) {
				return Session{
					Name: "server", Targets: []store.Target{{Node: d, Space: d}}, Lease: func(string) store.Lease { return &turns{} }, Close: func() {},
					Seal: func(p *policy.Policy) *Seal {
						return &Seal{Policy: p, Sealer: envelope.NewSealer(envelope.SealerOptions{Engine: codec.New(codec.Options{})})}
					},
				}, nil
			},
		})
		stop, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			b.Run(t.Context(), stop)
		}()
		defer func() {
			close(stop)
			<-ended
		}()
		passes := int64(0)
		pass := func(dryRun bool, counted int64) {
			t.Helper()
			dry.Store(dryRun)
			passes++
			until(t, "a pass", func() bool { s := b.Status(); return s.Passes[PassDone] == passes && !s.Running })
			s := b.Status()
			if r := s.Report; s.DryRun != dryRun || r.Keys != counted*keys || r.Replaced != counted*keys || r.CostBefore/keys/counted < 600 || r.Saved() <= 0 {
				t.Errorf("pass %d, dry run %v: %d keys, %d values, %d bytes", passes, s.DryRun, r.Keys, r.Replaced, r.CostBefore)
			}
		}
		pass(true, 1)
		pass(true, 1)
		pass(false, 1)
		pass(false, 2)
		pass(true, 1)
		pass(false, 3)
	})
}
