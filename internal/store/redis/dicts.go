package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
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
	functions functions
	keys      keys
	archive   archive
	local     *dict.Set
	log       *slog.Logger
	timeout   time.Duration
	period    time.Duration
	lease     time.Duration
	started   time.Time // what the times in ready count from
	lookups   store.Lookups

	storing  sync.Mutex      // held while the server is checked and written
	verified map[uint32]bool // guarded by storing: was read back from the server
	until    time.Duration   // guarded by storing: the end of the lease of what is found now

	mu   sync.Mutex // guards what follows, never held over I/O
	kept map[uint32]*codec.Dict
	told map[string]string // the last trouble logged, by what it was about

	// ready has the end of each lease. It is replaced as a whole, under storing. Kick makes kicks differ from checked, which takes
	// the readiness of everything back until a check has caught up.
	ready          atomic.Pointer[map[uint32]time.Duration]
	kicks, checked atomic.Uint64
	retired        atomic.Pointer[map[uint32]struct{}] // replaced as a whole, under storing
	wake           chan struct{}                       // capacity 1
	look           chan struct{}                       // capacity 1: as wake, without waiting for more
	began          atomic.Int64                        // when the last check did, since started
	lost           atomic.Int64                        // when the server ended a connection, since started
}

// NewDicts returns a Dicts that has not asked the server for anything yet.
func NewDicts(o DictsOptions) *Dicts {
	d := &Dicts{
		functions: functions{o.Client, libraryPrefix},
		keys:      keys{o.Client, keyPrefix},
		archive:   newArchive(o.Client),
		local:     o.Local,
		log:       o.Log,
		timeout:   orDefault(o.Timeout, defaultTimeout),
		period:    orDefault(o.Period, defaultPeriod),
		lease:     orDefault(o.Lease, DefaultLease),
		started:   time.Now(),
		lookups:   store.Lookups{TTL: orDefault(o.MissTTL, 2*time.Second), IsAnswer: isAnswer},
		verified:  make(map[uint32]bool),
		kept:      make(map[uint32]*codec.Dict),
		told:      make(map[string]string),
		wake:      make(chan struct{}, 1),
		look:      make(chan struct{}, 1),
	}
	if !o.AskAlways {
		d.lookups.Numbers = d.numbers
	}
	if d.local == nil {
		d.local = new(dict.Set)
	}
	if d.log == nil {
		d.log = slog.Default()
	}
	d.began.Store(int64(-overlap)) // there was none
	d.ready.Store(&map[uint32]time.Duration{})
	d.retired.Store(&map[uint32]struct{}{})
	return d
}

func orDefault(d, def time.Duration) time.Duration {
	if d <= 0 {
		return def
	}
	return d
}

// Ready reports that the server holds the dictionary, so that values stored there may
// name it: a check has found it a Lease ago or less, and nobody had retired it. It
// neither blocks nor allocates.
func (d *Dicts) Ready(number uint32) bool {
	if d.kicks.Load() != d.checked.Load() {
		return false
	}
	until, ok := (*d.ready.Load())[number]
	return ok && time.Since(d.started) < until
}

// Retired reports that the dictionary is kept for values that name it already, and for
// no others: see Retire. It neither blocks nor allocates.
func (d *Dicts) Retired(number uint32) bool {
	_, ok := (*d.retired.Load())[number]
	return ok
}

// setReady gives dictionaries the lease of what is found now, or takes it from them.
func (d *Dicts) setReady(ready bool, numbers ...uint32) {
	next := maps.Clone(*d.ready.Load())
	for _, n := range numbers {
		if ready {
			next[n] = d.until
		} else {
			delete(next, n)
		}
	}
	d.ready.Store(&next)
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
		return d.fetch(number)
	})
}

// fetch asks the server, and remembers what it gives.
func (d *Dicts) fetch(number uint32) (*codec.Dict, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d.timeout)
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

// attend keeps a dictionary that another server has given: if this one holds it, a check will
// say so.
func (d *Dicts) attend(number uint32) error {
	d.mu.Lock()
	_, kept := d.kept[number]
	d.mu.Unlock()
	if kept {
		return nil
	}
	_, err := d.lookups.Do(number, func() (*codec.Dict, error) { return d.fetch(number) })
	if errors.Is(err, cinch.ErrDictMissing) {
		return nil
	}
	return err
}

// find looks in all places: a server that has functions now may have been without when
// the values were written, and what was archived may be named still. Missing is said only
// when all say so.
func (d *Dicts) find(ctx context.Context, number uint32) (*codec.Dict, error) {
	trouble := error(cinch.ErrDictMissing)
	anyFunction := func(ctx context.Context, number uint32) (*codec.Dict, error) {
		return d.functions.getAny(ctx, number, d.archive.functions)
	}
	for _, get := range []func(context.Context, uint32) (*codec.Dict, error){anyFunction, d.keys.get, d.archive.keys.get} {
		x, err := get(ctx, number)
		switch {
		case err == nil:
			return x, nil
		case isNowhere(err):
		case !isAnswer(err):
			return nil, err
		case isNowhere(trouble):
			trouble = err
		}
	}
	return nil, trouble
}

// numbers lists what is in libraries. Keys are not listed: it would take a scan of all keys.
func (d *Dicts) numbers() (map[uint32]struct{}, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d.timeout)
	defer cancel()
	libraries, err := d.functions.list(ctx, everyPrefix+"*", false)
	if err != nil {
		return nil, err
	}
	all := make(map[uint32]struct{}, len(libraries))
	for _, l := range libraries {
		for _, home := range []functions{d.functions, d.archive.functions} {
			if number, ok := parseNumber(l.Name, home.prefix); ok {
				all[number] = struct{}{}
			}
		}
	}
	return all, nil
}

// isNowhere reports that a place exists without the dictionary, or not at all.
func isNowhere(err error) bool {
	return errors.Is(err, cinch.ErrDictMissing) || errors.Is(err, errNoFunctions)
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
