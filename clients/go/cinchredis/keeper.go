package cinchredis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/policy/published"
	"github.com/cinch-layer/cinch/internal/store"
)

const (
	refreshEvery = 30 * time.Second
	askTimeout   = 5 * time.Second
	missTTL      = 2 * time.Second // time for which a missing dictionary is not asked for again
)

// A keeper caches the policy and the dictionaries that gateways have published in a store. All its methods
// may be called concurrently.
type keeper struct {
	servers servers
	space   string // the number of the client's database
	refresh time.Duration
	log     *slog.Logger
	now     func() time.Time

	known   atomic.Pointer[agreement]
	next    atomic.Int64 // when to ask again, Unix time in nanoseconds
	asking  sync.Mutex
	dicts   dict.Set
	lookups store.LookupLimiter
}

// An agreement is the policy from the last successful read.
type agreement struct {
	policy *policy.Policy
	at     time.Time
}

func newKeeper(s servers, space string, o Options) *keeper {
	k := &keeper{servers: s, space: space, refresh: o.Refresh, log: o.Log, now: time.Now}
	if k.refresh <= 0 {
		k.refresh = refreshEvery
	}
	if k.log == nil {
		k.log = slog.Default()
	}
	k.lookups = store.LookupLimiter{TTL: missTTL, IsAnswer: isAnswer, Numbers: k.numbers}
	k.known.Store(&agreement{policy: nothing()})
	return k
}

// nothing returns the policy used until one could be read: it seals nothing.
func nothing() *policy.Policy {
	p, err := policy.New(policy.Options{Off: true})
	if err != nil {
		panic(err) // a bug: a policy without rules is always valid
	}
	return p
}

// current returns the current policy, and whether new values may name its dictionaries. It starts a read in
// the background when one is due.
func (k *keeper) current() (p *policy.Policy, mayName bool) {
	now := k.now()
	if now.UnixNano() >= k.next.Load() && k.asking.TryLock() {
		k.next.Store(now.Add(k.refresh).UnixNano())
		go func() {
			defer k.asking.Unlock()
			k.ask(context.Background())
		}()
	}
	known := k.known.Load()
	return known.policy, now.Sub(known.at) < store.DefaultLease
}

// begin reads the policy for the first time.
func (k *keeper) begin(ctx context.Context) {
	k.asking.Lock()
	defer k.asking.Unlock()
	k.next.Store(k.now().Add(k.refresh).UnixNano())
	k.ask(ctx)
}

// ask reads the policy. If the store can't be asked, the last one stays.
func (k *keeper) ask(ctx context.Context) {
	at := k.now() // before the first request, so that the lease is not overestimated
	var p *policy.Policy
	err := k.over(ctx, func(ctx context.Context, all connected) (err error) {
		p, err = k.agreed(ctx, all)
		return err
	})
	if err != nil {
		k.log.Warn("cinchredis: can't read the policy; keeping the last one", "next try", k.refresh, "error", err)
		return
	}
	k.known.Store(&agreement{p, at})
}

// over calls ask with connections to the servers, for askTimeout at most.
func (k *keeper) over(ctx context.Context, ask func(context.Context, connected) error) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	all, err := k.servers.connect(ctx)
	if err != nil {
		return err
	}
	defer all.close()
	return ask(ctx, all)
}

func (k *keeper) agreed(ctx context.Context, all connected) (*policy.Policy, error) {
	text, err := all.record(ctx, published.PolicyRecord)
	if err != nil {
		return nil, err
	}
	doc, err := published.Parse(text)
	if err != nil {
		return nil, err
	}
	chosen, err := k.choose(ctx, all, doc)
	if err != nil {
		return nil, err
	}
	return doc.Policy(func(r *published.Rule) policy.Choice { return chosen[r] })
}

// choose finds the dictionaries that new values may name, and fetches them.
func (k *keeper) choose(ctx context.Context, all connected, doc published.Document) (map[*published.Rule]policy.Choice, error) {
	chosen := map[*published.Rule]policy.Choice{}
	login := all.login(ctx)
	for i := range doc.Rules {
		r := &doc.Rules[i]
		c, err := inForce(ctx, all, r, login)
		if err != nil {
			return nil, err
		}
		if c.Dict != 0 && !k.usable(ctx, all, c.Dict) {
			c.Dict = 0
		}
		chosen[r] = c
	}
	return chosen, nil
}

func inForce(ctx context.Context, all connected, r *published.Rule, login string) (policy.Choice, error) {
	if r.Record == "" {
		return r.Fixed()
	}
	text, err := all.record(ctx, r.RecordFor(login))
	if err != nil {
		return policy.Choice{}, err
	}
	return published.Current(text)
}

// usable reports whether a dictionary is in all servers, is not retired, and could be fetched.
func (k *keeper) usable(ctx context.Context, all connected, number uint32) bool {
	live, err := all.live(ctx, number)
	if err == nil && live {
		_, err = k.fetch(ctx, all, number)
	}
	if err != nil {
		k.log.Warn("cinchredis: can't fetch the rule's dictionary; compressing without it", "dictionary", fmt.Sprintf("%08x", number), "error", err)
	}
	return live && err == nil
}

func (k *keeper) fetch(ctx context.Context, all connected, number uint32) (*codec.Dict, error) {
	if d, ok := k.dicts.Get(number); ok {
		return d, nil
	}
	d, err := all.dictionary(ctx, number)
	if err != nil {
		return nil, err
	}
	return d, k.dicts.Add(d)
}

// Dictionary implements envelope.Dictionaries, from memory or from the store.
func (k *keeper) Dictionary(number uint32) (*codec.Dict, error) {
	if d, ok := k.dicts.Get(number); ok {
		return d, nil
	}
	d, err := k.lookups.Do(number, func() (d *codec.Dict, err error) {
		err = k.over(context.Background(), func(ctx context.Context, all connected) (err error) {
			d, err = k.fetch(ctx, all, number)
			return err
		})
		return d, err
	})
	if err != nil && !errors.Is(err, envelope.ErrDictMissing) {
		err = fmt.Errorf("%w: %w", ErrDictionaryUnavailable, err)
	}
	return d, err
}

// holds reports whether a dictionary is in memory.
func (k *keeper) holds(number uint32) bool {
	_, ok := k.dicts.Get(number)
	return ok
}

// numbers returns the numbers of all dictionaries in the store.
func (k *keeper) numbers() (map[uint32]struct{}, error) {
	found := map[uint32]struct{}{}
	err := k.over(context.Background(), func(ctx context.Context, all connected) error {
		for _, r := range all.readers {
			some, err := r.Numbers(ctx)
			if err != nil {
				return err
			}
			maps.Copy(found, some)
		}
		return nil
	})
	return found, err
}
