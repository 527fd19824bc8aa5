package redis

import (
	"sync"
	"sync/atomic"
	"time"
)

// churn finds key patterns whose values are put back again and again: sealing those costs
// twice and saves nothing, so they stay plain for a while.
type churn struct {
	mu     sync.Mutex
	counts map[string]*churnCount
	pauses atomic.Int32
}

type churnCount struct {
	n     int
	since time.Time
	until time.Time // plain until then
}

const (
	churnLimit    = 1000             // inflations
	churnWindow   = time.Minute      // within
	churnPause    = 10 * time.Minute // then plain for
	maxPatterns   = 1024
	patternLength = 64
)

// patternOf folds the digits of a key, so that keys of one kind count together.
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

// inflated counts one inflation and reports that its pattern has just been stopped.
func (c *churn) inflated(key []byte) bool {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil || len(c.counts) >= maxPatterns {
		c.counts = map[string]*churnCount{} // forgetting is harmless
		c.pauses.Store(0)
	}
	p := patternOf(key)
	k := c.counts[p]
	if k == nil {
		k = &churnCount{since: now}
		c.counts[p] = k
	}
	if now.Sub(k.since) > churnWindow {
		k.n, k.since = 0, now
	}
	k.n++
	if k.n < churnLimit || now.Before(k.until) {
		return false
	}
	k.until = now.Add(churnPause)
	c.pauses.Add(1)
	return true
}

// stopped reports whether values of this key's pattern stay plain at the moment. Without pauses none are.
func (c *churn) stopped(key []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.counts[patternOf(key)]
	return k != nil && time.Now().Before(k.until)
}
