package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/store"
)

// DictsOptions configure Dicts. Client is required.
type DictsOptions struct {
	// Client speaks to the server with the gateway's own credentials, in database 0.
	// It stays the caller's to close. Timeout binds it only with ContextTimeoutEnabled;
	// its defaults for DialerRetries and MaxRetries make a server that is down cost
	// seconds to notice. See ConnMaxLifetime.
	Client goredis.UniversalClient
	// Local holds the dictionaries that need no server to be found; what is fetched is
	// added to it. It may be shared. Nil: one of its own.
	Local *dict.Set
	Log   *slog.Logger // nil: slog.Default()

	Timeout time.Duration // for asking the server about one dictionary; 0: 5 s
	Period  time.Duration // between checks that everything is still there; 0: 30 s
	// Lease is for how long after a check new values may name what it found. Longer than
	// Period; 0: DefaultLease, which is what Collect waits for.
	Lease time.Duration
	// MissTTL is for how long a dictionary that is missing is not asked for again; when
	// the server could not be asked, it is left alone for half as long. 0: 2 s.
	MissTTL time.Duration
	// AskAlways sets no limit to questions for numbers that don't exist: for tools, which
	// somebody has started. Clients of a gateway could make up any number of them.
	AskAlways bool
}

// DefaultLease is for how long a gateway that is cut off may go on naming a dictionary
// that was retired meanwhile.
const DefaultLease = store.DefaultLease

const (
	defaultTimeout = 5 * time.Second
	defaultPeriod  = 30 * time.Second
)

// Dicts finds dictionaries in a server and keeps there what values may name. It is safe
// for concurrent use and implements cinch.Dictionaries.
//
// Everything that was published or fetched is kept in memory and put back if the server
// loses it, since values that name it may be there.
type Dicts struct {
	*places    // what the server holds
	records    // what gateways tell each other
	*readiness // what values may name
	*troubles  // what the log has said

	local   *dict.Set
	log     *slog.Logger
	timeout time.Duration
	period  time.Duration
	lookups store.Lookups

	storing  sync.Mutex      // held while the server is checked and written
	verified map[uint32]bool // guarded by storing: was read back from the server

	mu   sync.Mutex // guards what follows, never held over I/O
	kept map[uint32]*codec.Dict

	wake chan struct{} // capacity 1
	look chan struct{} // capacity 1: as wake, without waiting for more
}

// NewDicts returns a Dicts that has not asked the server for anything yet.
func NewDicts(o DictsOptions) *Dicts {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	told := newTroubles(o.Log)
	places := newPlaces(o.Client, told)
	d := &Dicts{
		places: places, records: records{places.functions, places.keys}, troubles: told,
		readiness: newReadiness(orDefault(o.Lease, DefaultLease)),
		local:     o.Local,
		log:       o.Log,
		timeout:   orDefault(o.Timeout, defaultTimeout),
		period:    orDefault(o.Period, defaultPeriod),
		lookups:   store.Lookups{TTL: orDefault(o.MissTTL, 2*time.Second), IsAnswer: isAnswer},
		verified:  make(map[uint32]bool),
		kept:      make(map[uint32]*codec.Dict),
		wake:      make(chan struct{}, 1),
		look:      make(chan struct{}, 1),
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

// Dictionary returns a dictionary by number, from memory or from the server; calls for
// the same one share one question. The error wraps cinch.ErrDictMissing when the server
// has none; other errors mean that it could not be asked or that what it holds is wrong.
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

// fetch asks the server, and remembers what it gives.
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
	d.wakeUp() // a check finds that it is stored, so that new values may name it too
	return x, nil
}

// Adopt fetches a dictionary that rules name. A miss is not remembered: another gateway may store the dictionary in the next moment, and
// values name it then.
func (d *Dicts) Adopt(ctx context.Context, number uint32) error {
	if _, ok := d.local.Get(number); ok {
		return nil
	}
	_, err := d.fetch(ctx, number)
	return err
}

// attend keeps a dictionary that another server has given: if this one holds it, a check will
// say so.
func (d *Dicts) attend(number uint32) error {
	d.mu.Lock()
	_, kept := d.kept[number]
	d.mu.Unlock()
	if kept {
		return nil
	}
	_, err := d.lookups.Do(number, func() (*codec.Dict, error) { return d.fetch(context.Background(), number) })
	if errors.Is(err, cinch.ErrDictMissing) {
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
