package redis

import (
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/policy/simulate"
)

// valueCodec compresses and decompresses values for all sessions of a gateway, under its current policy.
type valueCodec struct {
	gateway.Compressor
	policy       atomic.Pointer[policy.Policy]
	backoff      backoff
	mayBeIndexed func(key []byte) bool // reports whether a search index may cover a hash
	dicts        Dicts                 // nil: none
	whatIf       *simulate.Watch
	sharedBare   atomic.Pointer[entryData] // shared by replies whose values clients get without a library's format
	maxSeal      int                       // longest value in bytes that is compressed
	maxOpen      int                       // longest value in bytes that is decompressed
	log          *slog.Logger
}

func newValueCodec(cfg *Config) *valueCodec {
	opts := envelope.SealerOptions{Engine: cfg.Engine, Dicts: cfg.Dicts, MaxRaw: cfg.MaxSeal, MaxOpen: cfg.MaxOpen}
	v := &valueCodec{
		Compressor: gateway.Compressor{Sealer: envelope.NewSealer(opts), Effort: cfg.Effort, Stats: cfg.Stats, Sampler: cfg.Sampler},
		dicts:      cfg.Dicts, whatIf: cfg.WhatIf, maxSeal: cfg.MaxSeal,
		mayBeIndexed: func([]byte) bool { return false }, log: cfg.Log,
	}
	if v.whatIf == nil {
		v.whatIf = new(simulate.Watch)
	}
	v.maxOpen = v.Sealer.MaxOpen()
	v.setPolicy(cfg.Policy)
	return v
}

// setPolicy replaces the rules; nil turns compression off.
func (v *valueCodec) setPolicy(p *policy.Policy) {
	if p == nil {
		p = &policy.Policy{Off: true}
	}
	v.policy.Store(p)
}

// maySealHashes reports whether the rules may have compressed hash fields.
func (v *valueCodec) maySealHashes() bool {
	p := v.rules()
	return p.Force || slices.ContainsFunc(p.Rules(), func(r *policy.Rule) bool { return r.Types&policy.Hash != 0 })
}

// reportCorrupt counts and logs a value that cannot be decompressed, and returns the error text for the client.
// pattern is its key pattern, "" if unknown.
func (v *valueCodec) reportCorrupt(client net.Addr, cause error, pattern string) (text string) {
	class, text := describe(cause)
	v.Stats.Error(class)
	attrs := []any{"class", class, "client", client.String()}
	if pattern != "" {
		attrs = append(attrs, "keys", pattern)
	}
	v.log.Warn("compressed value can't be decompressed", append(attrs, "err", cause)...)
	return text
}

// isLookalike reports whether a value that begins with the magic is stored unchanged. It is, if no
// envelopes are expected at its key and its header does not parse.
func (v *valueCodec) isLookalike(rules *policy.Policy, a *policy.Address, value []byte) bool {
	if !rules.Excluded(a.Key) && (a.Type != policy.Hash || !v.mayBeIndexed(a.Key)) {
		return false
	}
	_, err := envelope.ParseHeader(value)
	return err != nil
}

// countInflated counts values that a command decompresses in place. Key patterns where that happens all the time
// are paused.
func (v *valueCodec) countInflated(keys [][]byte) {
	v.Stats.Inflated("command")
	for _, k := range keys {
		if v.backoff.recordInflation(k) {
			v.Stats.Inflated("pattern_stopped")
			v.log.Info("values of this key pattern are decompressed in place too often; new ones stay uncompressed for a while",
				"pattern", patternOf(k))
		}
	}
}

// mayBeSealed reports whether one of the keys may hold a compressed value in the database.
func (v *valueCodec) mayBeSealed(database string, keys [][]byte) bool {
	return slices.ContainsFunc(keys, func(k []byte) bool { return v.rules().MaySeal(database, k, false) })
}

// mayHoldHash reports whether one of the keys may hold a hash with envelopes.
func (v *valueCodec) mayHoldHash(database string, keys [][]byte) bool {
	return slices.ContainsFunc(keys, func(k []byte) bool { return v.rules().MayHoldHash(database, k) })
}

// rules returns the current policy, not the snapshot of the current request. Code that examines what keys
// hold, and guards it against changes until it is used, must call rules after the guard is in place: others
// may have written under a policy newer than the request.
func (v *valueCodec) rules() *policy.Policy { return v.policy.Load() }

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
	inflationLimit  = 1000             // inflations
	inflationWindow = time.Minute      // within
	backoffPause    = 10 * time.Minute // then uncompressed for
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
