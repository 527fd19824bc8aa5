package redis

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/panics"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
)

// A search module indexes hashes by what is stored in them, and queries load their fields and compute
// on them. So the hashes that an index covers are left plain. The server is asked for its indexes every
// second, and after each command that may change them; sealed fields that are found under a new one
// are put back. Before an index is created through this gateway that is done first (indexcommands.go).

const (
	indexPoll    = time.Second
	freshLooks   = 10              // where there are many, each tenth look asks about all indexes anew
	indexTimeout = 5 * time.Second // of one look
	announceTime = time.Minute     // an index that is about to be created counts as one for so long
)

// indexes is what a gateway knows of its server's search indexes.
type indexes struct {
	vault  *vault
	dialer *dialer
	share  *gateway.Share                     // for what is put back
	client *goredis.Client                    // as the gateway's own user
	view   atomic.Pointer[storeredis.Indexes] // nil: none
	kicked chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
	ends   sync.WaitGroup

	mu        sync.Mutex
	found     storeredis.Indexes
	announced map[string]time.Time // prefixes, until when
	sweeps    map[string]*sweep
	sweeping  sync.Mutex // held by those that nobody waits for
}

// unasked is what is known before the first answer.
var unasked = storeredis.Indexes{Unknown: errors.New("not asked yet")}

// newIndexes returns what knows nothing yet. With awaited that is said at once, for sessions that may begin
// before it serves.
func newIndexes(vault *vault, dialer *dialer, share *gateway.Share, awaited bool) *indexes {
	ctx, cancel := context.WithCancel(context.Background())
	x := &indexes{
		vault: vault, dialer: dialer, share: share, kicked: make(chan struct{}, 1), ctx: ctx, cancel: cancel, found: unasked,
		announced: map[string]time.Time{}, sweeps: map[string]*sweep{},
		client: dialer.self(firstSpace, false), // when it is needed
	}
	if awaited {
		x.view.Store(&unasked)
	}
	return x
}

// start begins to look, and waits for a moment for the first answer. After stop it does nothing.
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

// stop ends looking and sweeping.
func (x *indexes) stop() {
	x.mu.Lock()
	x.cancel()
	x.mu.Unlock()
	_ = x.client.Close()
	x.ends.Wait()
}

// cover reports whether a hash may be indexed; none is where the gateway does not serve.
func (x *indexes) cover(key []byte) bool { return x.view.Load().Cover(key) }

// kick asks for a look now: a command may have changed the indexes.
func (x *indexes) kick() {
	select {
	case x.kicked <- struct{}{}:
	default:
	}
}

// run looks until the gateway ends. It calls told behind the first look.
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

// look asks as the gateway's own user and, where that can't log in, as nobody: a server without a search
// module says so to anyone.
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

// learn takes what a look found, and has what is sealed under new indexes put back. A look that failed
// changes nothing of what is known, but that there is nothing known at first.
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
		delete(x.announced, p) // until it is dropped
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

// tell writes changes to the log. x.mu is held.
func (x *indexes) tell(found storeredis.Indexes) {
	log := x.vault.log
	switch {
	case found.Unknown != nil:
		if x.found.Unknown == nil || x.found.Unknown.Error() != found.Unknown.Error() {
			log.Warn("the server can't be asked for its search indexes, so no hash is sealed; the gateway's user needs +command|info +ft._list +ft.info",
				"err", found.Unknown)
		}
	case !slices.Equal(found.Prefixes, x.found.Prefixes):
		log.Info("search indexes cover hashes, which are left plain", "prefixes", found.Prefixes)
	case x.found.Unknown != nil && x.found.Unknown != unasked.Unknown:
		log.Info("the server was asked for its search indexes", "prefixes", found.Prefixes)
	}
}

// publish makes what is known what cover says. x.mu is held.
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

// announce counts prefixes as indexed from now on, before the server knows them.
func (x *indexes) announce(prefixes []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range prefixes {
		x.announced[p] = time.Now().Add(announceTime)
	}
	x.publish()
}

// known reports that the server has an index over all that begins with the prefix.
func (x *indexes) known(prefix string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.found.Unknown == nil && x.found.Cover([]byte(prefix))
}
