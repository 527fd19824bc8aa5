package tarantool

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// catalog holds the current spaces: rules and schema together. The schema is read again when a reply of the
// server names a newer version than the one that was read, and when a connection of a client or of the gateway was
// lost: a restarted server counts versions from the beginning.
type catalog struct {
	rules       atomic.Pointer[policy.Policy]
	spaces      atomic.Pointer[spaces] // nil until the schema was read
	seenVersion atomic.Uint64          // newest version in replies since the schema was last read
	// stale is set when the schema that was read may not be the server's any more, whatever its version is.
	stale atomic.Bool

	read  func(context.Context) (*schema.Schema, error) // nil: no schema is read, and no tuple is compressed
	ctx   context.Context                               // ends with the gateway
	stats *gateway.Stats
	log   *slog.Logger

	mu          sync.Mutex
	schema      *schema.Schema
	loading     chan struct{}   // closed when the running load has ended; nil: none runs
	loadBegan   time.Time       // beginning of the running or the last load
	greetedAt   time.Time       // when the server last greeted a client
	firstNeeded time.Time       // when a request first needed the schema
	failedAt    time.Time       // when the last load failed; zero: it succeeded
	warned      map[string]bool // warnings that were logged
	loaded      bool            // the schema has been read at least once
}

const (
	loadTimeout  = 30 * time.Second
	loadPatience = 5 * time.Second // longest time after the start of a load that a request waits for it
	firstReload  = time.Second     // pause after the first failed load of loadFirst; doubles up to lastReload
	lastReload   = 30 * time.Second
	// failurePause is the time after a failed load during which requests start no other load, unless the server has
	// greeted a client since the failed load began.
	failurePause = 500 * time.Millisecond
	// firstPatience limits how long requests that need the schema wait for it, counted from the first such
	// request. A server that is just starting may not have the gateway's user yet.
	firstPatience = 2 * time.Second
	firstPoll     = 20 * time.Millisecond // pause between attempts in that time
)

func newCatalog(ctx context.Context, rules *policy.Policy, read func(context.Context) (*schema.Schema, error), stats *gateway.Stats, log *slog.Logger) *catalog {
	c := &catalog{read: read, ctx: ctx, stats: stats, log: log, warned: map[string]bool{}}
	c.rules.Store(rules)
	return c
}

// readsSchema reports whether the gateway is configured to read the schema. It may not have been read yet.
func (c *catalog) readsSchema() bool { return c.read != nil }

// loadFirst reads the schema, and tries again until it has been read once.
func (c *catalog) loadFirst(context.Context) {
	if c.read == nil {
		return
	}
	for wait := firstReload; c.spaces.Load() == nil; wait = min(2*wait, lastReload) {
		c.refresh(c.ctx)
		if c.spaces.Load() != nil {
			return
		}
		select {
		case <-c.ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// recordVersion records the schema version of a reply.
func (c *catalog) recordVersion(version uint64) {
	for {
		seen := c.seenVersion.Load()
		if version <= seen || c.seenVersion.CompareAndSwap(seen, version) {
			return
		}
	}
}

// markLost records that the server ended a connection, so that it may have been restarted.
func (c *catalog) markLost() { c.stale.Store(true) }

// markRefused records that the server refused a request because it named that version.
func (c *catalog) markRefused(version uint64) {
	if all := c.spaces.Load(); all != nil && all.version == version {
		c.stale.Store(true)
	}
}

// isFresh reports whether all has the newest schema that the gateway knows of.
func (c *catalog) isFresh(all *spaces) bool {
	return all != nil && !c.stale.Load() && c.seenVersion.Load() <= all.version && !all.schema.Lost()
}

// current returns the spaces for a request. It reads the schema first if that has changed, and returns the
// previous spaces if reading takes too long or fails. It returns nil if no schema has been read.
func (c *catalog) current(ctx context.Context) *spaces {
	all := c.spaces.Load()
	if c.isFresh(all) || c.read == nil {
		return all
	}
	c.refresh(ctx)
	return c.spaces.Load()
}

// awaitSpaces is like current, for a request that has to be refused without a schema: it tries for longer.
func (c *catalog) awaitSpaces(ctx context.Context) *spaces {
	all := c.current(ctx)
	for all == nil && c.read != nil && ctx.Err() == nil && c.isEarly() {
		pause(ctx, firstPoll)
		all = c.current(ctx)
	}
	return all
}

// isEarly reports whether less than firstPatience has passed since a request first needed the schema.
func (c *catalog) isEarly() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.firstNeeded.IsZero() {
		c.firstNeeded = time.Now()
	}
	return time.Since(c.firstNeeded) < firstPatience
}

// recordGreeting records that the server greeted a client: it is up.
func (c *catalog) recordGreeting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.greetedAt = time.Now()
}

// refresh reads the schema, or waits for the running load. It returns early when that takes too long.
func (c *catalog) refresh(ctx context.Context) {
	for range 2 { // the first load may have failed because it began before the server was up
		loading, patience := c.beginLoad()
		if loading == nil || !waitFor(ctx, loading, patience) || !c.isOutdated() {
			return
		}
	}
}

// beginLoad begins a load if none is running. It returns a channel that is closed at the end of the load, and how long
// to wait for it; nil if it begins no load because one has just failed (see failurePause).
func (c *catalog) beginLoad() (loading chan struct{}, patience time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loading == nil {
		if time.Since(c.failedAt) < failurePause && c.loadBegan.After(c.greetedAt) {
			return nil, 0
		}
		c.loading, c.loadBegan = make(chan struct{}), time.Now()
		go c.load(c.loading)
	}
	return c.loading, loadPatience - time.Since(c.loadBegan)
}

// isOutdated reports whether the last load failed and the server has greeted a client since that load began.
func (c *catalog) isOutdated() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.failedAt.IsZero() && !c.loadBegan.After(c.greetedAt)
}

// waitFor waits until done is closed, and returns false if ctx or patience ends first.
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

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// tryRead reads the schema and turns a panic into an error.
func (c *catalog) tryRead(ctx context.Context) (read *schema.Schema, err error) {
	defer gateway.CatchPanic(c.log, c.stats, func() { err = gateway.ErrPanicked })
	return c.read(ctx)
}

func (c *catalog) load(done chan struct{}) {
	defer gateway.CatchPanic(c.log, c.stats, nil)
	ctx, cancel := context.WithTimeout(c.ctx, loadTimeout)
	defer cancel()
	seen := c.seenVersion.Load()
	c.stale.Store(false) // set again if a connection is lost from now on
	read, err := c.tryRead(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(done)
	c.loading = nil
	if err != nil {
		c.stale.Store(true)
		c.failedAt = time.Now()
		if c.ctx.Err() == nil {
			c.logFailure(err)
		}
		return
	}
	c.failedAt = time.Time{}
	delete(c.warned, unreadable)
	c.schema = read
	if !c.seenVersion.CompareAndSwap(seen, read.Version) { // the version may be lower, after a restart of the server
		c.recordVersion(read.Version) // a reply named a version meanwhile: keep the newer of the two
	}
	c.assign()
	if !c.loaded {
		c.log.Info("schema was read", "version", read.Version, "spaces", len(read.Spaces()), "fields", c.spaces.Load().compressedFields)
	}
	c.loaded = true
}

const unreadable = "the schema can't be read"

func (c *catalog) logFailure(err error) {
	c.stats.Error("schema")
	if c.warned[unreadable] {
		return
	}
	c.warned[unreadable] = true
	c.log.Warn(unreadable+", so no tuple is compressed", "err", err, "hint", cmp.Or(terminal.Hint(err), "is the server up?"))
}

// setRules replaces the rules.
func (c *catalog) setRules(p *policy.Policy) {
	c.rules.Store(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.schema != nil {
		c.assign()
	}
}

// assign applies the rules to the schema. c.mu must be held.
func (c *catalog) assign() {
	all, complaints := newSpaces(c.rules.Load(), c.schema)
	c.spaces.Store(all)
	for _, text := range complaints {
		if !c.warned[text] {
			c.warned[text] = true
			c.log.Warn("not compressed: " + text)
		}
	}
	if len(c.warned) > maxWarned {
		clear(c.warned)
	}
}

// maxWarned limits the number of warnings that are remembered.
const maxWarned = 4096
