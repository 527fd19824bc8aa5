//go:build cgo

package libzstd

import (
	"errors"
	"sync"
)

// maxPrepared limits the prepared dictionaries of each kind that are kept. A prepared dictionary takes its
// own size and, for compression, tables that grow with the level.
const maxPrepared = 32

var errPanicked = errors.New("preparing a dictionary panicked")

// prepared caches the dictionaries used last, in prepared form. One that leaves the cache is freed by its
// finalizer after the last call with it: never explicitly, since other goroutines may be using it.
type prepared[K comparable, P any] struct {
	mu      sync.Mutex
	clock   uint64
	entries map[K]*preparedEntry[P]
}

type preparedEntry[P any] struct {
	once  sync.Once
	value P
	err   error
	used  uint64 // clock at the last use
}

// get returns the value for key. It prepares it once, outside the lock, since that takes long at high levels.
// Errors are cached too.
func (p *prepared[K, P]) get(key K, prepare func() (P, error)) (P, error) {
	e := p.entry(key)
	e.once.Do(func() {
		e.err = errPanicked // unless prepare returns; a nil value would mean no dictionary
		e.value, e.err = prepare()
	})
	return e.value, e.err
}

func (p *prepared[K, P]) entry(key K) *preparedEntry[P] {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.entries == nil {
		p.entries = make(map[K]*preparedEntry[P])
	}
	e, ok := p.entries[key]
	if !ok {
		if len(p.entries) >= maxPrepared {
			p.dropOldest()
		}
		e = &preparedEntry[P]{}
		p.entries[key] = e
	}
	p.clock++
	e.used = p.clock
	return e
}

func (p *prepared[K, P]) dropOldest() {
	var oldest K
	least := p.clock + 1
	for key, e := range p.entries {
		if e.used < least {
			oldest, least = key, e.used
		}
	}
	delete(p.entries, oldest)
}
