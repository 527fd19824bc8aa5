package tarantool

import (
	"bytes"
	"fmt"
	"log/slog"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	corestore "github.com/cinch-layer/cinch/internal/store"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// Sampler sees values on their way into the store, to make dictionaries of them.
type Sampler interface {
	// Sample is told of each value that rule covers and that may be sealed: stored is how
	// many bytes it takes, sealed or not, and login who writes it, "" for guest. It keeps neither key nor value, and is quick.
	Sample(rule *policy.Rule, login string, key, value []byte, stored int)
}

// vault seals and opens values for all sessions of a gateway.
type vault struct {
	sealer  *cinch.Sealer
	dicts   corestore.Dicts // nil: none
	sampler Sampler         // nil: none
	maxSeal int
	effort  *gateway.Effort
	stats   *gateway.Stats
	log     *slog.Logger
}

func newVault(o cinch.SealerOptions, dicts corestore.Dicts, sampler Sampler, stats *gateway.Stats, log *slog.Logger) *vault {
	if dicts != nil {
		o.Dicts = dicts
	}
	return &vault{sealer: cinch.NewSealer(o), dicts: dicts, sampler: sampler, maxSeal: o.MaxRaw, stats: stats, log: log}
}

// seal appends the envelope of a value that a login writes, or the value itself.
func (v *vault) seal(dst, value []byte, rule *policy.Rule, login string) []byte {
	if dst == nil {
		dst = gateway.GetBuffer(len(value) + cinch.MaxHeaderLen + 512)
	}
	var st, wanted codec.Setting
	var worth func(raw, sealed int) bool
	if rule != nil {
		wanted, worth = v.setting(rule, login), rule.WorthFunc(policy.Tuple)
		st = v.effort.Lower(wanted, len(value))
	}
	began, stint := time.Now(), v.effort.Begin(len(value))
	out := v.sealer.Seal(dst, value, st, worth)
	stint.End()
	took := time.Since(began)
	if st.Codec != codec.Raw {
		v.effort.Took(took)
	}
	v.countSeal(rule, st.Codec, len(value), out, took)
	// What a budget has denied its dictionary says nothing about that.
	if rule != nil && v.sampler != nil && login != notSure && (wanted.Dict == 0 || st == wanted) {
		v.sampler.Sample(rule, login, nil, value, len(out))
	}
	return out
}

// setting is how a rule wants the values of a login.
func (v *vault) setting(rule *policy.Rule, login string) codec.Setting {
	st := rule.SettingFor(login)
	if st.Dict != 0 && (v.dicts == nil || !v.dicts.Ready(st.Dict)) {
		st.Dict = 0
	}
	return st
}

func (v *vault) countSeal(rule *policy.Rule, id codec.ID, raw int, stored []byte, d time.Duration) {
	h, err := cinch.ParseHeader(stored)
	switch {
	case rule == nil:
		v.stats.Sealed("escape", codec.Raw, raw, len(stored), d)
	case err == nil:
		v.stats.Sealed(rule.Name, h.Codec, raw, len(stored), d)
	case id == codec.Raw:
		v.stats.Left(rule.Name, gateway.SteppedDown, raw)
	default:
		v.stats.SealTime(rule.Name, id, d)
		reason := "no_gain"
		if raw > v.maxSeal {
			reason = "too_big"
		}
		v.stats.Left(rule.Name, reason, raw)
	}
}

// errForeign: nothing here seals the content of what other libraries have compressed, so what is opened has the declared length.
var errForeign = fmt.Errorf("%w: the content of a value that a library for Redis had compressed", cinch.ErrUnknownCodec)

// openStored is the value of something stored.
func (v *vault) openStored(stored []byte) ([]byte, error) {
	if h, err := cinch.ParseHeader(stored); err == nil && h.IsForeign() {
		return nil, errForeign
	}
	return v.sealer.Open(nil, stored)
}

// open appends the value of an envelope whose header is h.
func (v *vault) open(dst, stored []byte, h *cinch.Header) ([]byte, error) {
	began := time.Now()
	out, err := v.sealer.Open(dst, stored)
	if err == nil {
		v.stats.Opened(h.Codec, len(stored), h.RawLen, time.Since(began))
	}
	return out, err
}

// maxOpen bounds, in bytes, the values that are opened.
func (v *vault) maxOpen() int { return v.sealer.MaxOpen() }

// broken is what to tell a client when a sealed value does not open.
func (v *vault) broken(cause error, client string) *refusal {
	class, text := gateway.Unopened(cause)
	v.stats.Error(class)
	v.log.Warn("sealed value does not open", "class", class, "client", client, "err", cause)
	return &refusal{wire.ErrSystem, class, "cinch: " + text}
}

var magic = []byte(cinch.Magic)

// hasMagic looks whether anything in b may begin like an envelope.
func hasMagic(b []byte) bool { return bytes.Contains(b, magic) }
