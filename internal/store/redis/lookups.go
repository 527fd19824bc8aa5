package redis

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
)

// Limits of asking the server for dictionaries that values name: whoever can write
// values can make up numbers.
const (
	maxAsking = 4       // questions at a time; more wait
	maxFailed = 1 << 12 // numbers remembered as not to be had
)

// lookups keeps values that name a dictionary which is not to be had from flooding the
// server.
type lookups struct {
	ttl    time.Duration
	group  *singleflight.Group
	asking chan struct{}
	mu     *sync.Mutex
	failed map[uint32]failure
	down   failure // the server could not be asked, for whichever number
}

type failure struct {
	err   error
	until time.Time
}

func newLookups(ttl time.Duration) lookups {
	return lookups{
		ttl:    ttl,
		group:  new(singleflight.Group),
		asking: make(chan struct{}, maxAsking),
		mu:     new(sync.Mutex),
		failed: make(map[uint32]failure),
	}
}

// do calls ask unless it failed for the same number a moment ago or is under way.
func (l *lookups) do(number uint32, ask func() (*codec.Dict, error)) (*codec.Dict, error) {
	if err := l.recent(number); err != nil {
		return nil, err
	}
	v, err, _ := l.group.Do(strconv.FormatUint(uint64(number), 16), func() (any, error) {
		l.asking <- struct{}{}
		defer func() { <-l.asking }()
		if err := l.recent(number); err != nil { // of a call that ended just before this one
			return nil, err
		}
		d, err := ask()
		if err != nil {
			l.remember(number, err)
			return nil, err
		}
		return d, nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*codec.Dict), nil
}

func (l *lookups) recent(number uint32) error {
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

func (l *lookups) remember(number uint32, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !errors.Is(err, cinch.ErrDictMissing) && !isAnswer(err) {
		l.down = failure{err, time.Now().Add(l.ttl / 2)}
		return
	}
	if len(l.failed) >= maxFailed {
		clear(l.failed)
	}
	l.failed[number] = failure{err, time.Now().Add(l.ttl)}
}
