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

// Limits on asking a store for dictionaries that values name. They are needed because any client that writes
// values can make up numbers.
const (
	maxAsking = 4       // concurrent questions; more wait
	maxFailed = 1 << 12 // missing numbers remembered

	missRate  = 20          // questions a second that find nothing
	missBurst = 100         // largest burst of them
	listEvery = time.Second // between questions for all numbers, once the burst is used up
)

// ErrNotAsked: too many unknown dictionaries were asked for just now, and the store's last list of numbers
// did not contain this one.
var ErrNotAsked = errors.New("too many unknown dictionaries at once, this one was not looked up")

// Lookups keeps values that name missing dictionaries from flooding their store with questions. It is safe
// for concurrent use. A dictionary that appears is found after TTL at most, also during a flood.
type Lookups struct {
	// TTL is the time for which a missing dictionary is not asked for again. After a question that failed, no
	// number is asked for until half of TTL has passed.
	TTL time.Duration
	// IsAnswer reports whether an error concerns one number and not the whole store. Errors that wrap
	// cinch.ErrDictMissing always count as such. Nil: no others do.
	IsAnswer func(error) bool
	// Numbers lists the dictionaries of the store. It is called during a flood of unknown numbers, so that
	// existing dictionaries are still found; one that it leaves out waits for the flood's end. Nil: questions
	// are not limited.
	Numbers func() (map[uint32]struct{}, error)

	once   sync.Once
	group  singleflight.Group
	asking chan struct{}

	mu     sync.Mutex
	failed map[uint32]failure
	down   failure // the last question failed, for all numbers
	spare  float64 // questions left at asOf
	asOf   time.Time
	listed map[uint32]struct{} // result of Numbers at time at
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

// Do calls ask unless ask failed for the same number a moment ago or too many unknown numbers were asked for.
// Concurrent calls for one number share one question.
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

// Forget drops the remembered failure of a number that exists now.
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
		delete(l.failed, other) // any: which of them will be asked for again is unknown
	}
	l.failed[number] = failure{err, time.Now().Add(l.TTL)}
}

// mayAsk takes one of the questions left. If there is none, it reports whether the store's list has the
// number.
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

// refund returns the question of a lookup that succeeded: only misses are limited.
func (l *Lookups) refund() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spare = min(l.spare+1, missBurst)
}

// numbers returns the store's list of numbers, at most listEvery old.
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
