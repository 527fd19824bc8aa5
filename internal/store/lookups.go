package store

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
)

// Limits of asking a store for dictionaries that values name: whoever can write values can make up
// numbers.
const (
	maxAsking = 4       // questions at a time; more wait
	maxFailed = 1 << 12 // numbers remembered as not to be had

	missRate  = 20          // questions a second that find nothing,
	missBurst = 100         // or so many at once
	listEvery = time.Second // between questions for all numbers, when those are used up
)

// ErrNotAsked: too many dictionaries that don't exist were asked for just now, and the store did not
// have this one when it last told its numbers.
var ErrNotAsked = errors.New("too many unknown dictionaries are asked for, this one was not")

// Lookups keeps values that name dictionaries which are not to be had from flooding their store. It
// is safe for concurrent use. A dictionary that appears is found TTL later at most, also during a flood.
type Lookups struct {
	// TTL is for how long a dictionary that is missing is not asked for again; when the store could
	// not be asked, it is left alone for half as long.
	TTL time.Duration
	// IsAnswer tells errors about one number from those about the store. What wraps
	// cinch.ErrDictMissing needs no asking. Nil: there are no others.
	IsAnswer func(error) bool
	// Numbers lists the dictionaries of the store. It is asked in a flood of unknown numbers, so that
	// those which exist are found all the same; what it leaves out waits for the flood's end. Nil: there
	// is no limit to questions.
	Numbers func() (map[uint32]struct{}, error)

	once   sync.Once
	group  singleflight.Group
	asking chan struct{}

	mu     sync.Mutex
	failed map[uint32]failure
	down   failure // the store could not be asked, for whichever number
	spare  float64 // questions that may be asked; as of
	asOf   time.Time
	listed map[uint32]struct{} // by Numbers, at
	at     time.Time
}

type failure struct {
	err   error
	until time.Time
}

func (l *Lookups) init() {
	l.once.Do(func() {
		l.asking = make(chan struct{}, maxAsking)
		l.failed = make(map[uint32]failure)
		l.spare = missBurst
	})
}

// Do calls ask unless it failed for the same number a moment ago, is under way, or too many that don't
// exist were asked for.
func (l *Lookups) Do(number uint32, ask func() (*codec.Dict, error)) (*codec.Dict, error) {
	l.init()
	if err := l.recent(number); err != nil {
		return nil, err
	}
	v, err, _ := l.group.Do(strconv.FormatUint(uint64(number), 16), func() (any, error) {
		l.asking <- struct{}{}
		defer func() { <-l.asking }()
		if err := l.recent(number); err != nil { // of a call that ended just before this one
			return nil, err
		}
		if !l.mayAsk(number) {
			return nil, ErrNotAsked
		}
		d, err := ask()
		if err != nil {
			l.remember(number, err)
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

// Forget drops what is remembered of numbers that are there now.
func (l *Lookups) Forget(number uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.failed, number)
}

func (l *Lookups) recent(number uint32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Before(l.down.until) {
		return l.down.err
	}
	if f := l.failed[number]; now.Before(f.until) {
		return f.err
	}
	return nil
}

func (l *Lookups) remember(number uint32, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !errors.Is(err, cinch.ErrDictMissing) && (l.IsAnswer == nil || !l.IsAnswer(err)) {
		l.down = failure{err, time.Now().Add(l.TTL / 2)}
		return
	}
	for other := range l.failed {
		if len(l.failed) < maxFailed {
			break
		}
		delete(l.failed, other) // any: which of them comes again can't be known
	}
	l.failed[number] = failure{err, time.Now().Add(l.TTL)}
}

// mayAsk takes a question from those that are left, or looks whether the store has listed the number.
func (l *Lookups) mayAsk(number uint32) bool {
	if l.Numbers == nil || l.take() {
		return true
	}
	_, there := l.numbers()[number]
	return there
}

func (l *Lookups) take() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if !l.asOf.IsZero() {
		l.spare = min(l.spare+now.Sub(l.asOf).Seconds()*missRate, missBurst)
	}
	l.asOf = now
	if l.spare < 1 {
		return false
	}
	l.spare--
	return true
}

// refund gives a question back that found something: only misses are limited.
func (l *Lookups) refund() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spare = min(l.spare+1, missBurst)
}

// numbers are those of the store, a moment ago.
func (l *Lookups) numbers() map[uint32]struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.at) >= listEvery {
		l.at = now
		l.mu.Unlock()
		listed, err := l.Numbers()
		l.mu.Lock()
		if err == nil {
			l.listed = listed
		}
	}
	return l.listed
}
