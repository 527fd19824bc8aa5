package pack

import (
	"context"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/store"
)

// pauseCache caches the operator's pause from the store. All gateways of the store read it there, and each can
// set it.
type pauseCache struct {
	store store.Pause   // nil: operators can't pause
	busy  chan struct{} // capacity 1: serializes calls, so that no old answer overwrites a newer one

	mu      sync.Mutex // guards what follows
	since   time.Time
	resumed chan struct{} // closed at the end of the pause; nil: not paused
}

func newPauseCache(s store.Pause) *pauseCache {
	return &pauseCache{store: s, busy: make(chan struct{}, 1)}
}

// exclusive runs do while no other call to the store is under way.
func (p *pauseCache) exclusive(ctx context.Context, do func() error) error {
	select {
	case p.busy <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.busy }()
	return do()
}

// refresh asks the store and reports whether packing is paused. An error leaves the cached state unchanged.
func (p *pauseCache) refresh(ctx context.Context) (is bool, err error) {
	if p.store == nil {
		return false, nil
	}
	err = p.exclusive(ctx, func() error {
		since, is, err := p.store.Get(ctx)
		if err == nil {
			p.update(since, is)
		}
		return err
	})
	is, _ = p.state()
	return is, err
}

// set sets the pause in the store, and then here. It returns the start of the pause.
func (p *pauseCache) set(ctx context.Context, now time.Time) (since time.Time, err error) {
	err = p.exclusive(ctx, func() (err error) {
		if since, err = p.store.Set(ctx, now); err == nil {
			p.update(since, true)
		}
		return err
	})
	return since, err
}

func (p *pauseCache) clear(ctx context.Context) error {
	return p.exclusive(ctx, func() error {
		err := p.store.Clear(ctx)
		if err == nil {
			p.update(time.Time{}, false)
		}
		return err
	})
}

func (p *pauseCache) update(since time.Time, is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = since
	switch {
	case is && p.resumed == nil:
		p.resumed = make(chan struct{})
	case !is && p.resumed != nil:
		close(p.resumed)
		p.resumed = nil
	}
}

func (p *pauseCache) state() (is bool, since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resumed != nil, p.since
}

// resumeSignal returns a channel that is closed at the end of the pause; nil if there is none. It serves as
// Options.Paused.
func (p *pauseCache) resumeSignal() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resumed
}
