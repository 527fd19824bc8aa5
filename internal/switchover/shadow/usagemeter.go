package shadow

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/shadow/usage"
)

// meter measures the targets' storage and resource use, when a run begins and at its end.
type meter struct {
	sizer    Sizer             // nil: the protocol can't tell
	commands map[string]string // print the bytes on disk, by target
	off      time.Duration     // see Config.OffTime
	targets  [targets]*Target
	trouble  atomic.Bool // a target does not answer, so it is not asked any more

	mu         sync.Mutex
	begin, end *usage.Both
}

// Limits for measuring. Clients wait no longer than startUsageTime for it.
const (
	startUsageTime = 5 * time.Second
	usageTime      = 10 * time.Minute
)

func newMeter(cfg *Config, of [targets]*Target) *meter {
	m := &meter{commands: cfg.StorageCommands, off: cfg.OffTime, targets: of}
	m.sizer, _ = cfg.Protocol.(Sizer)
	return m
}

// first begins to measure, and waits for that up to startUsageTime. The returned function waits until it is done.
func (m *meter) first(ctx context.Context) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		u := m.measure(ctx)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.begin = u
	}()
	select {
	case <-done:
	case <-time.After(startUsageTime):
	}
	return func() { <-done }
}

// last measures when all mirrored operations are done.
func (m *meter) last(ctx context.Context) {
	if m.trouble.Load() {
		return
	}
	limit := usageTime
	if ctx.Err() != nil {
		limit = m.off
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	u := m.measure(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end = u
}

// measured returns the results so far.
func (m *meter) measured() (begin, end *usage.Both) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.begin, m.end
}

func (m *meter) measure(ctx context.Context) *usage.Both {
	if m.sizer == nil && len(m.commands) == 0 {
		return nil
	}
	return &usage.Both{At: time.Now(), Control: m.ask(ctx, m.targets[control]), Test: m.ask(ctx, m.targets[test])}
}

func (m *meter) ask(ctx context.Context, t *Target) usage.Usage {
	var s usage.Size
	var err error
	if m.sizer != nil {
		s, err = m.sizer.Size(ctx, t)
	}
	u := usage.Of(ctx, s, m.commands[t.Name])
	if err != nil {
		u.Misses("the server's own figures: %v", err)
	}
	return u
}
