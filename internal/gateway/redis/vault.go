package redis

import (
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/internal/whatif"
)

// vault seals and opens values for all sessions of a gateway, by the rules of the moment.
type vault struct {
	gateway.Compressor
	policy  atomic.Pointer[policy.Policy]
	churn   churn
	covered func(key []byte) bool // reports a hash that a search index may cover
	dicts   *storeredis.NodeDicts // nil: none
	whatIf  *whatif.Watch
	bare    atomic.Pointer[op] // of replies whose values clients get without a library's format
	maxSeal int                // bytes of the longest value that is sealed
	maxOpen int                // and of the longest that is opened
	log     *slog.Logger
}

func newVault(cfg *Config) *vault {
	opts := cinch.SealerOptions{Engine: cfg.Engine, MaxRaw: cfg.MaxSeal, MaxOpen: cfg.MaxOpen}
	if cfg.Dicts != nil {
		opts.Dicts = cfg.Dicts
	}
	v := &vault{
		Compressor: gateway.Compressor{Sealer: cinch.NewSealer(opts), Effort: cfg.Effort, Stats: cfg.Stats, Sampler: cfg.Sampler},
		dicts:      cfg.Dicts, whatIf: cfg.WhatIf, maxSeal: cfg.MaxSeal,
		covered: func([]byte) bool { return false }, log: cfg.Log,
	}
	if v.whatIf == nil {
		v.whatIf = new(whatif.Watch)
	}
	v.maxOpen = v.Sealer.MaxOpen()
	v.setPolicy(cfg.Policy)
	return v
}

// setPolicy replaces the rules; nil is none.
func (v *vault) setPolicy(p *policy.Policy) {
	if p == nil {
		p = &policy.Policy{Off: true}
	}
	v.policy.Store(p)
}

// sealsHashes reports that fields may have been sealed under the rules.
func (v *vault) sealsHashes() bool {
	p := v.rules()
	return p.Force || slices.ContainsFunc(p.Rules(), func(r *policy.Rule) bool { return r.Types&policy.Hash != 0 })
}

// sayBroken counts and logs that a sealed value does not open. pattern is its kind of key, empty
// when that is not known. It returns what the client is told.
func (v *vault) sayBroken(client net.Addr, cause error, pattern string) (text string) {
	class, text := describe(cause)
	v.Stats.Error(class)
	attrs := []any{"class", class, "client", client.String()}
	if pattern != "" {
		attrs = append(attrs, "keys", pattern)
	}
	v.log.Warn("sealed value does not open", append(attrs, "err", cause)...)
	return text
}

// keepsLookalike reports that a value that begins with the magic is stored as it is: a reader can see
// that it is no envelope.
func (v *vault) keepsLookalike(rules *policy.Policy, a *policy.Address, value []byte) bool {
	if !rules.Excluded(a.Key) && (a.Type != policy.Hash || !v.covered(a.Key)) {
		return false
	}
	_, err := cinch.ParseHeader(value)
	return err != nil
}

// inflating counts an inflation; patterns that are inflated all the time stop being sealed.
func (v *vault) inflating(keys [][]byte) {
	v.Stats.Inflated("command")
	for _, k := range keys {
		if v.churn.inflated(k) {
			v.Stats.Inflated("pattern_stopped")
			v.log.Info("keys of this pattern are inflated again and again; new values stay plain for a while",
				"pattern", patternOf(k))
		}
	}
}

// mayBeSealed reports whether a value among the keys may be sealed in a database.
func (v *vault) mayBeSealed(space string, keys [][]byte) bool {
	return slices.ContainsFunc(keys, func(k []byte) bool { return v.rules().MaySeal(space, k, false) })
}

// mayHoldHash reports whether a hash among the keys may hold envelopes.
func (v *vault) mayHoldHash(space string, keys [][]byte) bool {
	return slices.ContainsFunc(keys, func(k []byte) bool { return v.rules().MayHoldHash(space, k) })
}

// rules returns the policy of this moment, not the one that the current request took. Who looks at what keys hold, and guards it
// against changes until it is used, asks for this one after the guard is in place: others may have written by a policy that is newer
// than the request.
func (v *vault) rules() *policy.Policy { return v.policy.Load() }

// churn finds key patterns whose values are put back again and again: sealing those costs
// twice and saves nothing, so they stay plain for a while.
type churn struct {
	mu     sync.Mutex
	counts map[string]*churnCount
	until  time.Time   // the end of the last pause
	paused atomic.Bool // a pattern may be paused
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
		c.paused.Store(false)
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
	c.until = k.until
	c.paused.Store(true)
	return true
}

// stopped reports whether values of this key's pattern are to stay plain now. The caller has found c.paused set; after the end of the
// last pause stopped resets it, so that later values need neither the lock nor the pattern.
func (c *churn) stopped(key []byte) bool {
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
