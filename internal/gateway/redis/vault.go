package redis

import (
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/internal/whatif"
)

// vault seals and opens values for all sessions of a gateway, by the rules of the moment.
type vault struct {
	sealer  *cinch.Sealer
	policy  atomic.Pointer[policy.Policy]
	churn   churn
	covered func(key []byte) bool // reports a hash that a search index may cover
	dicts   *storeredis.NodeDicts // nil: none
	sampler Sampler               // nil: none
	whatIf  *whatif.Watch         // nil: none
	bare    atomic.Pointer[op]    // of replies whose values clients get without a library's format
	maxSeal int
	effort  *gateway.Effort
	stats   *gateway.Stats
	log     *slog.Logger
}

func newVault(cfg *Config) *vault {
	opts := cinch.SealerOptions{Engine: cfg.Engine, MaxRaw: cfg.MaxSeal, MaxOpen: cfg.MaxOpen}
	if cfg.Dicts != nil {
		opts.Dicts = cfg.Dicts
	}
	v := &vault{
		sealer: cinch.NewSealer(opts), dicts: cfg.Dicts, sampler: cfg.Sampler, whatIf: cfg.WhatIf, maxSeal: cfg.MaxSeal, effort: cfg.Effort,
		covered: func([]byte) bool { return false }, stats: cfg.Stats, log: cfg.Log,
	}
	v.policy.Store(cfg.Policy)
	return v
}

// maxOpen bounds, in bytes, the values that are opened.
func (v *vault) maxOpen() int { return v.sealer.MaxOpen() }

// sealsHashes reports that fields may have been sealed under the rules.
func (v *vault) sealsHashes() bool {
	p := v.rules()
	return p != nil && (p.Force || slices.ContainsFunc(p.Rules(), func(r *policy.Rule) bool { return r.Types&policy.Hash != 0 }))
}

// sayBroken counts and logs that a sealed value does not open. pattern is its kind of key, empty
// when that is not known. It returns what the client is told.
func (v *vault) sayBroken(client net.Addr, cause error, pattern string) (text string) {
	class, text := describe(cause)
	v.stats.Error(class)
	attrs := []any{"class", class, "client", client.String()}
	if pattern != "" {
		attrs = append(attrs, "keys", pattern)
	}
	v.log.Warn("sealed value does not open", append(attrs, "err", cause)...)
	return text
}

// keepsLookalike reports that a value that begins with the magic is stored as it is: a reader can see
// that it is no envelope.
func (v *vault) keepsLookalike(a *policy.Address, value []byte) bool {
	if !v.rules().Excluded(a.Key) && (a.Type != policy.Hash || !v.covered(a.Key)) {
		return false
	}
	_, err := cinch.ParseHeader(value)
	return err != nil
}

// inflating counts an inflation; patterns that are inflated all the time stop being sealed.
func (v *vault) inflating(keys [][]byte) {
	v.stats.Inflated("command")
	for _, k := range keys {
		if v.churn.inflated(k) {
			v.stats.Inflated("pattern_stopped")
			v.log.Info("keys of this pattern are inflated again and again; new values stay plain for a while",
				"pattern", patternOf(k))
		}
	}
}

// excluded reports that the policy promises that none of the keys holds an envelope.
func (v *vault) excluded(keys [][]byte) bool {
	p := v.rules()
	for _, k := range keys {
		if !p.Excluded(k) {
			return false
		}
	}
	return len(keys) > 0
}

// mayBeSealed reports whether a value among the keys may be sealed in a database.
func (v *vault) mayBeSealed(space string, keys [][]byte) bool {
	return slices.ContainsFunc(keys, func(k []byte) bool { return v.rules().MaySeal(space, k) })
}

// mayHoldHash reports whether a hash among the keys may hold envelopes.
func (v *vault) mayHoldHash(space string, keys [][]byte) bool {
	return slices.ContainsFunc(keys, func(k []byte) bool { return v.rules().MayHoldHash(space, k) })
}

func (v *vault) countSeal(rule *policy.Rule, id codec.ID, raw int, stored []byte, d time.Duration) {
	stats := v.stats
	switch {
	case rule == nil:
		stats.Sealed("escape", codec.Raw, raw, len(stored), d)
	case cinch.IsSealed(stored):
		stats.Sealed(rule.Name, codecOf(stored, id), raw, len(stored), d)
	case id == codec.Raw:
		stats.Left(rule.Name, gateway.SteppedDown, raw)
	default:
		stats.SealTime(rule.Name, id, d)
		stats.Left(rule.Name, leftReason(raw, v.maxSeal), raw)
	}
}

// rules are the policy at this moment.
func (v *vault) rules() *policy.Policy { return v.policy.Load() }

// codecOf is the codec that the envelope really has: raw for an escaped value.
func codecOf(stored []byte, wanted codec.ID) codec.ID {
	if h, err := cinch.ParseHeader(stored); err == nil {
		return h.Codec
	}
	return wanted
}

func leftReason(raw, limit int) string {
	if raw > limit {
		return "too_big"
	}
	return "no_gain"
}
