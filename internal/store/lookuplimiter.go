package store

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
)

// Limits on looking up dictionaries in a store. They are needed because any client that writes values can make up
// numbers.
const (
	maxConcurrent = 4       // concurrent lookups; more wait
	maxFailures   = 1 << 12 // missing numbers remembered

	missRate     = 20          // lookups a second that may find nothing
	missBurst    = 100         // largest burst of them
	listInterval = time.Second // between two lists of all numbers, once the burst is used up
)

// ErrLookupLimit: too many unknown dictionaries were looked up just now, and the store's last list of numbers did
// not contain this one.
var ErrLookupLimit = errors.New("too many unknown dictionaries at once, this one was not looked up")

// LookupLimiter keeps values that name missing dictionaries from flooding their store with lookups. It is safe for
// concurrent use. A dictionary that appears is found after TTL at most, also during a flood.
type LookupLimiter struct {
	// TTL is the time for which a missing dictionary is not looked up again. After an error of the whole store, no
	// number is looked up until half of TTL has passed.
	TTL time.Duration
	// IsAnswer reports whether an error concerns one number and not the whole store. Errors that wrap
	// envelope.ErrDictMissing always count as such. Nil: no others do.
	IsAnswer func(error) bool
	// Numbers lists the dictionaries of the store. It is called during a flood of unknown numbers, so that existing
	// dictionaries are still found; one that it leaves out is found after the flood. Nil: lookups are not limited.
	Numbers func() (map[uint32]struct{}, error)

	once  sync.Once
	group singleflight.Group
	slots chan struct{}

	mu       sync.Mutex
	failures map[uint32]failure
	outage   failure // the last error of the whole store
	tokens   float64 // lookups left at refilled
	refilled time.Time
	listed   map[uint32]struct{} // the last result of Numbers without an error
	listedAt time.Time
}

type failure struct {
	err   error
	until time.Time
}

func (l *LookupLimiter) init() {
	l.once.Do(func() {
		l.slots = make(chan struct{}, maxConcurrent)
		l.failures = make(map[uint32]failure)
		l.tokens = missBurst
	})
}

// Do returns the result of ask. It returns an error without calling ask if the same number was missing a moment ago
// (see TTL), after an error of the whole store, and if too many unknown numbers were looked up (ErrLookupLimit).
// Concurrent calls for one number share one lookup.
func (l *LookupLimiter) Do(number uint32, ask func() (*codec.Dict, error)) (*codec.Dict, error) {
	l.init()
	if err := l.recentFailure(number); err != nil {
		return nil, err
	}
	v, err, _ := l.group.Do(strconv.FormatUint(uint64(number), 16), func() (any, error) {
		l.slots <- struct{}{}
		defer func() { <-l.slots }()
		if err := l.recentFailure(number); err != nil { // of a call that ended just before this one
			return nil, err
		}
		if !l.allow(number) {
			return nil, ErrLookupLimit
		}
		d, err := ask()
		if err != nil {
			l.recordFailure(number, err)
			return nil, err
		}
		l.refund()
		return d, nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*codec.Dict), nil
}

// Forget drops the remembered failure of a number that exists now.
func (l *LookupLimiter) Forget(number uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.failures, number)
}

func (l *LookupLimiter) recentFailure(number uint32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Before(l.outage.until) {
		return l.outage.err
	}
	if f := l.failures[number]; now.Before(f.until) {
		return f.err
	}
	return nil
}

func (l *LookupLimiter) recordFailure(number uint32, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !errors.Is(err, envelope.ErrDictMissing) && (l.IsAnswer == nil || !l.IsAnswer(err)) {
		l.outage = failure{err, time.Now().Add(l.TTL / 2)}
		return
	}
	for other := range l.failures {
		if len(l.failures) < maxFailures {
			break
		}
		delete(l.failures, other) // any one: which will be looked up again is unknown
	}
	l.failures[number] = failure{err, time.Now().Add(l.TTL)}
}

// allow takes a token. If there is none, it reports whether the store's list has the number.
func (l *LookupLimiter) allow(number uint32) bool {
	if l.Numbers == nil || l.takeToken() {
		return true
	}
	_, there := l.numbers()[number]
	return there
}

func (l *LookupLimiter) takeToken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if !l.refilled.IsZero() {
		l.tokens = min(l.tokens+now.Sub(l.refilled).Seconds()*missRate, missBurst)
	}
	l.refilled = now
	if l.tokens < 1 {
		return false
	}
	l.tokens--
	return true
}

// refund gives back the token of a lookup that succeeded: only misses are limited.
func (l *LookupLimiter) refund() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokens = min(l.tokens+1, missBurst)
}

// numbers returns the store's list of numbers. It lists them again at most once per listInterval; after an error it
// returns the older list.
func (l *LookupLimiter) numbers() map[uint32]struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.listedAt) >= listInterval {
		l.listedAt = now
		l.mu.Unlock()
		listed, err := l.Numbers()
		l.mu.Lock()
		if err == nil {
			l.listed = listed
		}
	}
	return l.listed
}
