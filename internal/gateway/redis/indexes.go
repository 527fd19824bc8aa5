package redis

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/system/panics"
	"github.com/cinch-layer/cinch/internal/wire/resp/search"
)

// A search module indexes the stored bytes of hashes, and queries load their fields and compute on them. So
// hashes that an index covers are left uncompressed. The gateway asks the server for its indexes every
// second, and after each command that may change them. Compressed fields found under a new index are
// decompressed in place. For an index that is created through this gateway this is done first
// (indexcommands.go).

const (
	indexPoll     = time.Second
	fullPollEvery = 10              // if there are many indexes, every tenth poll asks about all again
	indexTimeout  = 5 * time.Second // of one poll
	announceTime  = time.Minute     // how long an index about to be created counts as existing
)

// indexes tracks the server's search indexes.
type indexes struct {
	codec         *valueCodec
	dialer        *dialer
	share         *memory.Share                  // for decompressing in place
	client        *goredis.Client                // logged in as the gateway's own user
	view          atomic.Pointer[search.Indexes] // nil: none
	pollRequested chan struct{}
	ctx           context.Context
	cancel        context.CancelFunc
	running       sync.WaitGroup

	mu        sync.Mutex
	found     search.Indexes
	announced map[string]time.Time // prefixes, and until when they count
	sweeps    map[string]*sweep
	sweeping  sync.Mutex // locked during a gentle pass, so that only one runs at a time
}

// notPolled is the state before the first answer.
var notPolled = search.Indexes{Unknown: errors.New("not asked yet")}

// newIndexes returns indexes that have not been polled. If awaited, mayCover reports every hash as covered until start,
// for sessions that begin before that.
func newIndexes(codec *valueCodec, dialer *dialer, share *memory.Share, awaited bool) *indexes {
	ctx, cancel := context.WithCancel(context.Background())
	x := &indexes{
		codec: codec, dialer: dialer, share: share, pollRequested: make(chan struct{}, 1), ctx: ctx, cancel: cancel, found: notPolled,
		announced: map[string]time.Time{}, sweeps: map[string]*sweep{},
		client: dialer.longLivedClient(), // connects on first use
	}
	if awaited {
		x.view.Store(&notPolled)
	}
	return x
}

// start starts the polling, and waits a moment for the first answer. After stop it does nothing.
func (x *indexes) start() {
	x.view.Store(&notPolled)
	first := make(chan struct{})
	onPolled := sync.OnceFunc(func() { close(first) })
	x.mu.Lock()
	if x.ctx.Err() == nil {
		x.running.Go(func() {
			panics.KeepRunning(x.ctx, x.codec.log, x.codec.Stats, func(context.Context) { x.run(onPolled) })
		})
	}
	x.mu.Unlock()
	select {
	case <-first:
	case <-x.ctx.Done():
	case <-time.After(indexPoll):
	}
}

// stop ends polling and sweeps.
func (x *indexes) stop() {
	x.mu.Lock()
	x.cancel()
	x.mu.Unlock()
	_ = x.client.Close()
	x.running.Wait()
}

// mayCover reports whether a search index may cover a hash. It reports false if the gateway is not serving.
func (x *indexes) mayCover(key []byte) bool { return x.view.Load().Covers(key) }

// kick requests a poll now: a command may have changed the indexes.
func (x *indexes) kick() {
	select {
	case x.pollRequested <- struct{}{}:
	default:
	}
}

// run polls until the gateway ends. It calls onPolled after the first poll.
func (x *indexes) run(onPolled func()) {
	defer onPolled()
	var look search.IndexTracker
	t := time.NewTicker(indexPoll)
	defer t.Stop()
	fresh := true
	for n := 1; x.ctx.Err() == nil; n++ {
		x.apply(x.poll(&look, fresh), n == 1)
		if n == 1 {
			onPolled()
		}
		select {
		case <-x.ctx.Done():
		case <-x.pollRequested:
			fresh = true
		case <-t.C:
			fresh = n%fullPollEvery == 0 || look.IsSmall()
		}
	}
}

// poll asks as the gateway's own user. If that cannot log in, it asks without a login: a server without a
// search module tells that to any client.
func (x *indexes) poll(look *search.IndexTracker, fresh bool) search.Indexes {
	ctx, cancel := context.WithTimeout(x.ctx, indexTimeout)
	defer cancel()
	found := look.Refresh(ctx, asker(x.client), fresh)
	if found.Unknown == nil || !isNoLogin(found.Unknown) || x.dialer.upstream.Password == "" {
		return found
	}
	anonymous := x.dialer.clientAs(&credentials{}, defaultDatabase, false)
	defer anonymous.Close()
	var once search.IndexTracker
	if none := once.Refresh(ctx, asker(anonymous), true); none.Unknown == nil {
		return none
	}
	return found
}

func asker(c *goredis.Client) search.CommandFunc {
	return func(ctx context.Context, args ...any) (any, error) { return c.Do(ctx, args...).Result() }
}

// apply records the result of a poll and starts decompressing fields under new indexes in place. A failed poll changes
// nothing once indexes are known.
func (x *indexes) apply(found search.Indexes, atStart bool) {
	if x.ctx.Err() != nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if found.Unknown != nil && !isServerError(found.Unknown) && x.found.Unknown == nil {
		return // the server is away for a moment
	}
	x.logChanges(found)
	x.found = found
	for _, p := range found.Prefixes {
		delete(x.announced, p) // from now on it counts until it is dropped
	}
	x.publish()
	for p := range x.sweeps {
		if x.sweeps[p].ended() && !slices.Contains(found.Prefixes, p) && x.announced[p].IsZero() {
			delete(x.sweeps, p)
		}
	}
	if !x.codec.maySealHashes() {
		return
	}
	for _, p := range found.Prefixes {
		if x.sweeps[p] == nil || x.sweeps[p].repeat {
			x.startSweep(p, x.client, true, !atStart)
		}
	}
}

// logChanges logs changes. x.mu must be held.
func (x *indexes) logChanges(found search.Indexes) {
	log := x.codec.log
	switch {
	case found.Unknown != nil:
		if x.found.Unknown == nil || x.found.Unknown.Error() != found.Unknown.Error() {
			log.Warn("can't list the server's search indexes, so no hash is compressed; grant the gateway's user +command|info +ft._list +ft.info",
				"err", found.Unknown)
		}
	case !slices.Equal(found.Prefixes, x.found.Prefixes):
		log.Info("search indexes cover hashes, which are left uncompressed", "prefixes", found.Prefixes)
	case x.found.Unknown != nil && x.found.Unknown != notPolled.Unknown:
		log.Info("the server's search indexes can be listed again", "prefixes", found.Prefixes)
	}
}

// publish makes the current state visible to mayCover. x.mu must be held.
func (x *indexes) publish() {
	view := x.found
	view.Prefixes = slices.Clone(view.Prefixes)
	for p, until := range x.announced {
		if w := x.sweeps[p]; time.Now().After(until) && (w == nil || w.ended()) {
			delete(x.announced, p)
			continue
		}
		view.Prefixes = append(view.Prefixes, p)
	}
	x.view.Store(&view)
}

// announce treats prefixes as indexed from now on, before the server knows them.
func (x *indexes) announce(prefixes []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range prefixes {
		x.announced[p] = time.Now().Add(announceTime)
	}
	x.publish()
}

// hasIndex reports whether the server has an index over all keys that begin with prefix.
func (x *indexes) hasIndex(prefix string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.found.Unknown == nil && x.found.Covers([]byte(prefix))
}

// hasName asks the server whether it has an index of that name, with which FT.CREATE changes nothing. It reports false
// if the server can't be asked. If the index is dropped before FT.CREATE arrives, the next poll finds the new one.
func (x *indexes) hasName(name []byte) bool {
	ctx, cancel := context.WithTimeout(x.ctx, indexTimeout)
	defer cancel()
	names, err := x.client.Do(ctx, "FT._LIST").StringSlice()
	return err == nil && slices.Contains(names, string(name))
}
