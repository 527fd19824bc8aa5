package redis

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"

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

// parseHeader parses the header at the beginning of an envelope of n bytes and checks that its length and that of the
// value are within the limit.
func (v *valueCodec) parseHeader(head []byte, n int64) (envelope.Header, error) {
	h, err := envelope.ParseHeader(head)
	if err != nil {
		return envelope.Header{}, err
	}
	switch {
	case h.RawLen > v.maxOpen:
		return envelope.Header{}, fmt.Errorf("%w: %d bytes, the limit is %d (max_open)", envelope.ErrTooLarge, h.RawLen, v.maxOpen)
	case n > int64(v.maxOpen+envelope.MaxHeaderLen):
		return envelope.Header{}, fmt.Errorf("%w: %d bytes as stored, the limit is %d (max_open)", envelope.ErrTooLarge, n, v.maxOpen)
	}
	return h, nil
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

// countInflated counts values that a command decompresses in place. Keys and key patterns where that happens all the
// time are paused.
func (v *valueCodec) countInflated(keys [][]byte) {
	v.Stats.Inflated("command")
	for _, k := range keys {
		key, pattern := v.backoff.recordInflation(k)
		if key {
			v.Stats.Inflated("key_stopped")
		}
		if pattern {
			v.Stats.Inflated("pattern_stopped")
			v.log.Info("half of the values of this key pattern are decompressed in place soon after they are written; new ones stay uncompressed for a while",
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
