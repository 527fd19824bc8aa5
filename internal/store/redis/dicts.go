package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/store"
)

// DictsOptions configure Dicts. Client is required.
type DictsOptions struct {
	// Client is connected to the server with the gateway's own credentials, in database 0. The caller closes
	// it. Timeout applies to it only with ContextTimeoutEnabled; with its defaults for DialerRetries and
	// MaxRetries it takes seconds to notice that a server is down. See ConnMaxLifetime.
	Client goredis.UniversalClient
	// Local is searched before the server is asked; fetched dictionaries are added to it. It may be shared.
	// Nil: a new set.
	Local *dict.Set
	Log   *slog.Logger // nil: slog.Default()

	Timeout time.Duration // for one lookup, or storing one dictionary; 0: 5 s
	Period  time.Duration // between checks that everything is still stored; 0: 30 s
	// Lease is the time after a check for which new values may name the dictionaries that it found. It must
	// be longer than Period. 0: DefaultLease, which Collect waits for.
	Lease time.Duration
	// MissTTL is the time for which a missing dictionary is not looked up again; see LookupLimiter.TTL. 0: 2 s.
	MissTTL time.Duration
	// AskAlways removes the limit on lookups of numbers that don't exist. It is for tools that an operator runs; a
	// gateway needs the limit, since clients could make up any number of them.
	AskAlways bool
}

// DefaultLease limits how long a gateway that is cut off may continue to name a dictionary that was retired
// meanwhile.
const DefaultLease = store.DefaultLease

const (
	defaultTimeout = 5 * time.Second
	defaultPeriod  = 30 * time.Second
)

// Dicts finds dictionaries in a server, and makes sure that those that values may name stay stored there. It is
// safe for concurrent use and implements envelope.Dictionaries.
//
// Everything that was published or fetched is kept in memory and restored if the server loses it, since
// values that name it may be there.
type Dicts struct {
	*dictBackends // where the server stores dictionaries
	records       // texts that gateways share
	*readiness    // which dictionaries values may name
	*onceLogger   // what was logged already

	local   *dict.Set
	log     *slog.Logger
	timeout time.Duration
	period  time.Duration
	lookups store.LookupLimiter

	storing  sync.Mutex      // locked while the server is checked and written
	verified map[uint32]bool // guarded by storing: dictionaries read back from the server

	mu   sync.Mutex // guards kept; not locked during I/O
	kept map[uint32]*codec.Dict

	wake     chan struct{} // capacity 1
	checkNow chan struct{} // capacity 1: like wake, without the debounce
}

// NewDicts returns a Dicts that has not asked the server for anything yet.
func NewDicts(o DictsOptions) *Dicts {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	once := &onceLogger{log: o.Log}
	stored := newDictBackends(o.Client, once)
	d := &Dicts{
		dictBackends: stored, records: records{stored.functions, stored.keys}, onceLogger: once,
		readiness: newReadiness(orDefault(o.Lease, DefaultLease)),
		local:     o.Local,
		log:       o.Log,
		timeout:   orDefault(o.Timeout, defaultTimeout),
		period:    orDefault(o.Period, defaultPeriod),
		lookups:   store.LookupLimiter{TTL: orDefault(o.MissTTL, 2*time.Second), IsAnswer: isAnswer},
		verified:  make(map[uint32]bool),
		kept:      make(map[uint32]*codec.Dict),
		wake:      make(chan struct{}, 1),
		checkNow:  make(chan struct{}, 1),
	}
	if !o.AskAlways {
		d.lookups.Numbers = func() (map[uint32]struct{}, error) {
			ctx, cancel := context.WithTimeout(context.Background(), d.timeout)
			defer cancel()
			return d.numbers(ctx)
		}
	}
	if d.local == nil {
		d.local = new(dict.Set)
	}
	return d
}

func orDefault(d, def time.Duration) time.Duration {
	if d <= 0 {
		return def
	}
	return d
}

// Dictionary returns a dictionary by number, from memory or from the server. Concurrent calls for the same number
// share one lookup. The error wraps envelope.ErrDictMissing if the server answers that it has none; other errors
// mean that there was no answer, or that the stored content is wrong.
func (d *Dicts) Dictionary(number uint32) (*codec.Dict, error) {
	if x, ok := d.local.Get(number); ok {
		return x, nil
	}
	return d.lookups.Do(number, func() (*codec.Dict, error) {
		if x, ok := d.local.Get(number); ok {
			return x, nil
		}
		return d.fetch(context.Background(), number)
	})
}

// fetch gets a dictionary from the server and keeps it.
func (d *Dicts) fetch(ctx context.Context, number uint32) (*codec.Dict, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	x, err := d.find(ctx, number)
	if err != nil {
		return nil, err
	}
	if err := d.keep(x); err != nil {
		return nil, err
	}
	d.wakeUp() // a check will find it stored, so that new values may name it too
	return x, nil
}

// Adopt fetches a dictionary that rules name. Unlike Dictionary it does not remember a miss, since another gateway
// may store the dictionary at any moment, and values name it from then on.
func (d *Dicts) Adopt(ctx context.Context, number uint32) error {
	if _, ok := d.local.Get(number); ok {
		return nil
	}
	_, err := d.fetch(ctx, number)
	return err
}

// track fetches a dictionary that was found in another server, so that checks cover it here too. It is no
// error if this server lacks it.
func (d *Dicts) track(number uint32) error {
	d.mu.Lock()
	_, kept := d.kept[number]
	d.mu.Unlock()
	if kept {
		return nil
	}
	_, err := d.lookups.Do(number, func() (*codec.Dict, error) { return d.fetch(context.Background(), number) })
	if errors.Is(err, envelope.ErrDictMissing) {
		return nil
	}
	return err
}

// keep remembers a dictionary, here and in the local set.
func (d *Dicts) keep(x *codec.Dict) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old, ok := d.kept[x.Number()]; ok {
		if old.Hash() != x.Hash() {
			return fmt.Errorf("%w: SHA-256 %x and %x", ErrCollision, old.Hash(), x.Hash())
		}
		return nil
	}
	if err := d.local.Add(x); err != nil {
		return fmt.Errorf("%w: %w", ErrCollision, err)
	}
	d.kept[x.Number()] = x
	return nil
}
