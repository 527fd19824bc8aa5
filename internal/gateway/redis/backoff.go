package redis

import (
	"sync"
	"sync/atomic"
	"time"
)

// backoff finds key patterns whose values are decompressed in place again and again. Compressing those costs
// twice and saves nothing, so they stay uncompressed for a while.
type backoff struct {
	mu     sync.Mutex
	counts map[string]*inflationCount
	until  time.Time   // the end of the last pause
	paused atomic.Bool // a pattern may be paused
}

type inflationCount struct {
	n     int
	since time.Time
	until time.Time // uncompressed until then
}

const (
	inflationLimit  = 1000             // values decompressed in place, after which their pattern is paused
	inflationWindow = time.Minute      // in which inflationLimit must be reached
	backoffPause    = 10 * time.Minute // for which values of a paused pattern stay uncompressed
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

// recordInflation counts one value decompressed in place. It reports whether this paused its pattern.
func (c *backoff) recordInflation(key []byte) bool {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil || len(c.counts) >= maxPatterns {
		c.counts = map[string]*inflationCount{} // forgetting is harmless
		c.paused.Store(false)
	}
	p := patternOf(key)
	k := c.counts[p]
	if k == nil {
		k = &inflationCount{since: now}
		c.counts[p] = k
	}
	if now.Sub(k.since) > inflationWindow {
		k.n, k.since = 0, now
	}
	k.n++
	if k.n < inflationLimit || now.Before(k.until) {
		return false
	}
	k.until = now.Add(backoffPause)
	c.until = k.until
	c.paused.Store(true)
	return true
}

// isPaused reports whether values of this key's pattern stay uncompressed now. The caller has found c.paused
// set. After the last pause has ended isPaused resets it, so that later values need neither the lock nor the
// pattern.
func (c *backoff) isPaused(key []byte) bool {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !now.Before(c.until) {
		c.paused.Store(false)
		return false
	}
	k := c.counts[patternOf(key)]
	return k != nil && now.Before(k.until)
}
