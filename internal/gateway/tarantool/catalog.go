package tarantool

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	store "github.com/cinch-layer/cinch/internal/store/tarantool"
)

// catalog knows the plan that is in force: rules and schema together. The schema is read again
// when an answer of the server's names a newer version than the one that was read, and when
// connections were lost, clients' or our own: a server that was started anew counts versions anew.
type catalog struct {
	g    *Gateway
	plan atomic.Pointer[plan] // nil until the schema was read
	seen atomic.Uint64        // newest version in answers since it was read
	// stale is set when the version of the schema that was read means nothing any more.
	stale atomic.Bool

	mu      sync.Mutex
	schema  *store.Schema
	loading chan struct{}   // closed when the load at work has ended; nil: none is
	began   time.Time       // when it began, or the last one did
	greeted time.Time       // when the server last greeted a client
	needed  time.Time       // when a request first could not do without a plan
	failed  time.Time       // when the last load failed; zero: it did not
	told    map[string]bool // complaints that were logged
	first   bool            // the schema was read once
}

const (
	loadTimeout  = 30 * time.Second
	loadPatience = 5 * time.Second // of a request that waits for the schema
	firstReload  = time.Second
	lastReload   = 30 * time.Second
	// failurePause is how long after a failure requests don't try again by themselves, unless the
	// server has greeted a client meanwhile.
	failurePause = 500 * time.Millisecond
	// firstPatience is how long requests that can't do without a plan wait for one, from the first
	// such request on. A server that is just coming up may not have the gateway's user yet.
	firstPatience = 2 * time.Second
	firstPoll     = 20 * time.Millisecond
)

func (c *catalog) init(g *Gateway) { c.g, c.told = g, map[string]bool{} }

// begin reads the schema until that has succeeded once.
func (c *catalog) begin() {
	if c.g.cfg.Schema == nil {
		return
	}
	for wait := firstReload; c.plan.Load() == nil; wait = min(2*wait, lastReload) {
		c.refresh(c.g.ctx)
		if c.plan.Load() != nil {
			return
		}
		select {
		case <-c.g.ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// note takes notice of the schema's version in an answer.
func (c *catalog) note(version uint64) {
	for {
		seen := c.seen.Load()
		if version <= seen || c.seen.CompareAndSwap(seen, version) {
			return
		}
	}
}

// lost takes notice of a connection that the server ended.
func (c *catalog) lost() { c.stale.Store(true) }

// refused takes notice of a request that the server refused for naming that version.
func (c *catalog) refused(version uint64) {
	if p := c.plan.Load(); p != nil && p.version == version {
		c.stale.Store(true)
	}
}

// isFresh reports that nothing speaks against the plan.
func (c *catalog) isFresh(p *plan) bool {
	return p != nil && !c.stale.Load() && c.seen.Load() <= p.version && !p.schema.Lost()
}

// current is the plan for a request. It reads the schema first if that has changed, and
// returns what was known before when that takes too long or fails; nil: nothing is known.
func (c *catalog) current(ctx context.Context) *plan {
	p := c.plan.Load()
	if c.isFresh(p) || c.g.cfg.Schema == nil {
		return p
	}
	c.refresh(ctx)
	return c.plan.Load()
}

// need is current for a request that has to be refused without a plan: it tries longer.
func (c *catalog) need(ctx context.Context) *plan {
	p := c.current(ctx)
	for p == nil && c.g.cfg.Schema != nil && ctx.Err() == nil && c.isEarly() {
		pause(ctx, firstPoll)
		p = c.current(ctx)
	}
	return p
}

// isEarly reports that a plan may come soon, if nothing is wrong.
func (c *catalog) isEarly() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.needed.IsZero() {
		c.needed = time.Now()
	}
	return time.Since(c.needed) < firstPatience
}

// greet takes notice of a server that greeted a client: it is up.
func (c *catalog) greet() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.greeted = time.Now()
}

// refresh reads the schema, or waits for who does. It returns early when that takes too long.
func (c *catalog) refresh(ctx context.Context) {
	for range 2 { // the first may have been in vain since before the server was up
		loading, patience := c.begun()
		if loading == nil || !waitFor(ctx, loading, patience) || !c.isOutdated() {
			return
		}
	}
}

// begun is the load at work, which it begins if there is none, and how long to wait for it; nil
// soon after a failure.
func (c *catalog) begun() (loading chan struct{}, patience time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loading == nil {
		if time.Since(c.failed) < failurePause && c.began.After(c.greeted) {
			return nil, 0
		}
		c.loading, c.began = make(chan struct{}), time.Now()
		go c.load(c.loading)
	}
	return c.loading, loadPatience - time.Since(c.began)
}

// isOutdated reports that the last load failed, and that the server has greeted a client since
// it began.
func (c *catalog) isOutdated() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.failed.IsZero() && !c.began.After(c.greeted)
}

// waitFor reports whether done was closed in time.
func waitFor(ctx context.Context, done chan struct{}, patience time.Duration) bool {
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-ctx.Done():
	case <-t.C:
	}
	return false
}

func (c *catalog) load(done chan struct{}) {
	ctx, cancel := context.WithTimeout(c.g.ctx, loadTimeout)
	defer cancel()
	c.stale.Store(false) // what is lost from now on makes it stale again
	schema, err := c.g.cfg.Schema(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(done)
	c.loading = nil
	if err != nil {
		c.stale.Store(true)
		c.failed = time.Now()
		if c.g.ctx.Err() == nil {
			c.complain(err)
		}
		return
	}
	c.failed = time.Time{}
	delete(c.told, unreadable)
	c.schema = schema
	c.seen.Store(schema.Version)
	c.replanLocked()
	if !c.first {
		c.g.cfg.Log.Info("schema was read", "version", schema.Version, "spaces", len(schema.Spaces()), "fields", c.plan.Load().sealing)
	}
	c.first = true
}

const unreadable = "the schema can't be read"

func (c *catalog) complain(err error) {
	c.g.cfg.Stats.Error("schema")
	if c.told[unreadable] {
		return
	}
	c.told[unreadable] = true
	hint := "is the server up?"
	switch {
	case errors.Is(err, store.ErrLogin):
		hint = "put the gateway's own user and password into the upstream's URL: tarantool://user:password@host:3301"
	case errors.Is(err, store.ErrDenied):
		hint = "run cinch tarantool init, or give the gateway's user the right to read"
	}
	c.g.cfg.Log.Warn(unreadable+", so nothing is sealed", "err", err, "hint", hint)
}

// replan puts new rules into force.
func (c *catalog) replan() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.schema != nil {
		c.replanLocked()
	}
}

// replanLocked makes the plan of what is known.
func (c *catalog) replanLocked() {
	p, complaints := makePlan(c.g.policy.Load(), c.schema)
	c.plan.Store(p)
	for _, text := range complaints {
		if !c.told[text] {
			c.told[text] = true
			c.g.cfg.Log.Warn("not sealed: " + text)
		}
	}
	if len(c.told) > maxTold {
		clear(c.told)
	}
}

// maxTold bounds the complaints that are remembered.
const maxTold = 4096
