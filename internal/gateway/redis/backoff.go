package redis

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"
)

// backoff finds values that are decompressed in place again and again, as by a script that runs on the same keys.
// Compressing those costs twice and saves nothing, so they stay uncompressed for a while: the keys to which it happens,
// or all keys of a pattern if it happens to at least half of what is written there, each key perhaps once.
type backoff struct {
	mu       sync.Mutex
	keys     map[uint64]*inflations // by the key's hash
	patterns map[string]*inflations
	until    time.Time   // the end of the last pause or watch
	active   atomic.Bool // a key or a pattern may be paused, or watched
}

type inflations struct {
	n       int // of values decompressed in place; of a pattern: of keys
	since   time.Time
	written int       // values, of a pattern while it is watched
	watched time.Time // until then
	paused  time.Time // until then
}

const (
	keyLimit        = 100              // times that a key's value is decompressed in place, after which it is paused
	patternLimit    = 1000             // keys of a pattern to which that happens: it is watched, and paused after as many again
	inflationWindow = time.Minute      // in which a limit must be reached
	backoffPause    = 10 * time.Minute // for which values stay uncompressed
	maxKeys         = 4096
	maxPatterns     = 1024
	patternLength   = 64
)

// patternOf replaces each run of digits in a key by one #, so that keys of one kind count together.
func patternOf(key []byte) string {
	var buf [patternLength]byte
	n := 0
	for _, c := range key {
		if n == len(buf) {
			break
		}
		if c >= '0' && c <= '9' {
			if n > 0 && buf[n-1] == '#' {
				continue
			}
			c = '#'
		}
		buf[n] = c
		n++
	}
	return string(buf[:n])
}

// recordInflation counts one value decompressed in place. It reports whether this paused its key, or its pattern.
func (c *backoff) recordInflation(key []byte) (pausedKey, pausedPattern bool) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys == nil || len(c.keys) >= maxKeys { // forgetting is harmless
		c.keys = map[uint64]*inflations{}
	}
	if c.patterns == nil || len(c.patterns) >= maxPatterns {
		c.patterns = map[string]*inflations{}
	}
	h := xxh3.Hash(key)
	k := c.keys[h]
	if k == nil {
		k = &inflations{}
		c.keys[h] = k
	}
	if k.count(now); k.n >= keyLimit && !now.Before(k.paused) {
		k.paused, pausedKey = now.Add(backoffPause), true
		c.extend(k.paused)
	}
	if k.n > 1 {
		return pausedKey, false // the pattern counts keys, not how often one is touched
	}
	name := patternOf(key)
	p := c.patterns[name]
	if p == nil {
		p = &inflations{}
		c.patterns[name] = p
	}
	if p.count(now); p.n < patternLimit || now.Before(p.paused) {
		return pausedKey, false
	}
	if now.Before(p.watched) && 2*p.n >= p.written {
		p.paused, pausedPattern = now.Add(backoffPause), true
		c.extend(p.paused)
	} else {
		p.watched = now.Add(inflationWindow)
		c.extend(p.watched)
	}
	p.n, p.written, p.since = 0, 0, now
	return pausedKey, pausedPattern
}

// count counts one inflation within the window.
func (i *inflations) count(now time.Time) {
	if now.Sub(i.since) > inflationWindow {
		i.n, i.written, i.since = 0, 0, now
	}
	i.n++
}

func (c *backoff) extend(until time.Time) {
	if until.After(c.until) {
		c.until = until
	}
	c.active.Store(true)
}

// isPaused reports whether a value that is about to be written under the key stays uncompressed now. The caller has
// found c.active set. After the last pause or watch has ended isPaused resets it, so that later values need neither the
// lock nor the pattern.
func (c *backoff) isPaused(key []byte) bool {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !now.Before(c.until) {
		c.active.Store(false)
		return false
	}
	if k := c.keys[xxh3.Hash(key)]; k != nil && now.Before(k.paused) {
		return true
	}
	p := c.patterns[patternOf(key)]
	if p == nil {
		return false
	}
	p.written++
	return now.Before(p.paused)
}
