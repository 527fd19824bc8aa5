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
	"github.com/cinch-layer/cinch/internal/panics"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
)

// A search module indexes the stored bytes of hashes, and queries load their fields and compute on them. So
// hashes that an index covers are left uncompressed. The gateway asks the server for its indexes every
// second, and after each command that may change them. Compressed fields found under a new index are
// decompressed in place. For an index that is created through this gateway this is done first
// (indexcommands.go).

const (
	indexPoll    = time.Second
	freshLooks   = 10              // if there are many indexes, every tenth look asks about all again
	indexTimeout = 5 * time.Second // of one look
	announceTime = time.Minute     // how long an index about to be created counts as existing
)

// indexes tracks the server's search indexes.
type indexes struct {
	vault  *vault
	dialer *dialer
	share  *memory.Share                      // for decompressing in place
	client *goredis.Client                    // logged in as the gateway's own user
	view   atomic.Pointer[storeredis.Indexes] // nil: none
	kicked chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
	ends   sync.WaitGroup

	mu        sync.Mutex
	found     storeredis.Indexes
	announced map[string]time.Time // prefixes, and until when they count
	sweeps    map[string]*sweep
	sweeping  sync.Mutex // held by gentle passes
}

// unasked is the state before the first answer.
var unasked = storeredis.Indexes{Unknown: errors.New("not asked yet")}

// newIndexes returns indexes in the state unasked. With awaited, cover uses that at once, for sessions that
// may begin before start.
func newIndexes(vault *vault, dialer *dialer, share *memory.Share, awaited bool) *indexes {
	ctx, cancel := context.WithCancel(context.Background())
	x := &indexes{
		vault: vault, dialer: dialer, share: share, kicked: make(chan struct{}, 1), ctx: ctx, cancel: cancel, found: unasked,
		announced: map[string]time.Time{}, sweeps: map[string]*sweep{},
		client: dialer.lasting(), // connects on first use
	}
	if awaited {
		x.view.Store(&unasked)
	}
	return x
}

// start starts the polling, and waits a moment for the first answer. After stop it does nothing.
func (x *indexes) start() {
	x.view.Store(&unasked)
	first := make(chan struct{})
	told := sync.OnceFunc(func() { close(first) })
	x.mu.Lock()
	if x.ctx.Err() == nil {
		x.ends.Go(func() {
			panics.KeepRunning(x.ctx, x.vault.log, x.vault.Stats, func(context.Context) { x.run(told) })
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
	x.ends.Wait()
}

// cover reports whether a search index may cover a hash. It reports false if the gateway is not serving.
func (x *indexes) cover(key []byte) bool { return x.view.Load().Cover(key) }

// kick requests a look now: a command may have changed the indexes.
func (x *indexes) kick() {
	select {
	case x.kicked <- struct{}{}:
	default:
	}
}

// run polls until the gateway ends. It calls told after the first look.
func (x *indexes) run(told func()) {
	defer told()
	var look storeredis.IndexLook
	t := time.NewTicker(indexPoll)
	defer t.Stop()
	fresh := true
	for n := 1; x.ctx.Err() == nil; n++ {
		x.learn(x.look(&look, fresh), n == 1)
		if n == 1 {
			told()
		}
		select {
		case <-x.ctx.Done():
		case <-x.kicked:
			fresh = true
		case <-t.C:
			fresh = n%freshLooks == 0 || look.Few()
		}
	}
}

// look asks as the gateway's own user. If that cannot log in, it asks without a login: a server without a
// search module tells that to any client.
func (x *indexes) look(look *storeredis.IndexLook, fresh bool) storeredis.Indexes {
	ctx, cancel := context.WithTimeout(x.ctx, indexTimeout)
	defer cancel()
	found := look.Look(ctx, asker(x.client), fresh)
	if found.Unknown == nil || !isNoLogin(found.Unknown) || x.dialer.upstream.Password == "" {
		return found
	}
	nobody := x.dialer.as(&credentials{}, firstSpace, false)
	defer nobody.Close()
	var once storeredis.IndexLook
	if none := once.Look(ctx, asker(nobody), true); none.Unknown == nil {
		return none
	}
	return found
}

func asker(c *goredis.Client) storeredis.Asker {
	return func(ctx context.Context, args ...any) (any, error) { return c.Do(ctx, args...).Result() }
}

// learn records the result of a look and has fields under new indexes decompressed in place. A failed look
// changes nothing once indexes are known.
func (x *indexes) learn(found storeredis.Indexes, atStart bool) {
	if x.ctx.Err() != nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if found.Unknown != nil && !isDenial(found.Unknown) && x.found.Unknown == nil {
		return // the server is away for a moment
	}
	x.tell(found)
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
	if !x.vault.sealsHashes() {
		return
	}
	for _, p := range found.Prefixes {
		if x.sweeps[p] == nil || x.sweeps[p].again {
			x.begin(p, x.client, true, !atStart)
		}
	}
}

// tell logs changes. x.mu must be held.
func (x *indexes) tell(found storeredis.Indexes) {
	log := x.vault.log
	switch {
	case found.Unknown != nil:
		if x.found.Unknown == nil || x.found.Unknown.Error() != found.Unknown.Error() {
			log.Warn("can't list the server's search indexes, so no hash is compressed; grant the gateway's user +command|info +ft._list +ft.info",
				"err", found.Unknown)
		}
	case !slices.Equal(found.Prefixes, x.found.Prefixes):
		log.Info("search indexes cover hashes, which are left uncompressed", "prefixes", found.Prefixes)
	case x.found.Unknown != nil && x.found.Unknown != unasked.Unknown:
		log.Info("the server's search indexes can be listed again", "prefixes", found.Prefixes)
	}
}

// publish makes the current state visible to cover. x.mu must be held.
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

// known reports whether the server has an index over all keys that begin with prefix.
func (x *indexes) known(prefix string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.found.Unknown == nil && x.found.Cover([]byte(prefix))
}
