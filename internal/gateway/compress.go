package gateway

import (
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
)

// Compressor compresses values on their way into a store, within the budgets of a gateway, and counts what became of them. It is
// safe for concurrent use.
type Compressor struct {
	Sealer *cinch.Sealer
	Effort *Effort // nil: no budgets
	Stats  *Stats
}

// Compressed says what became of a value.
type Compressed struct {
	cinch.Outcome
	Setting codec.Setting // what the budgets left of the rule's
	Took    time.Duration // that the value waited for
	Spent   time.Duration // the same, and what was done while the value arrived
}

// Compress appends the envelope of a value of type t that rule covers, or the value itself where that gains nothing, to dst. setting
// is what the rule says for this value. A nil dst gets a buffer from the pool, which is the caller's.
func (c *Compressor) Compress(dst, value []byte, rule *policy.Rule, setting codec.Setting, t policy.Type) ([]byte, Compressed) {
	if dst == nil {
		dst = GetBuffer(len(value) + cinch.MaxHeaderLen + 512)
	}
	var stint Stint
	limited := c.Effort.Limited()
	if limited {
		setting = c.Effort.Lower(setting, len(value))
		stint = c.Effort.Begin(len(value))
	}
	began := time.Now()
	out, did := c.Sealer.SealOutcome(dst, value, setting, rule.WorthFunc(t))
	took := time.Since(began)
	if limited {
		stint.End()
		if setting.Codec != codec.Raw {
			c.Effort.Took(took)
		}
	}
	return out, Compressed{Outcome: did, Setting: setting, Took: took, Spent: took}
}

// Count counts what became of a value of raw bytes that a rule covers; it is stored as so many bytes.
func (c *Compressor) Count(rule *policy.Rule, did *Compressed, raw, stored int) {
	switch {
	case did.Sealed:
		c.Stats.Sealed(rule.Name, did.Codec, raw, stored, did.Spent)
	case did.Setting.Codec == codec.Raw:
		c.Stats.Left(rule.Name, SteppedDown, raw)
	default:
		c.Stats.SealTime(rule.Name, did.Setting.Codec, did.Spent)
		reason := "no_gain"
		if raw > c.Sealer.MaxRaw() {
			reason = "too_big"
		}
		c.Stats.Left(rule.Name, reason, raw)
	}
}

// Wrap appends value to dst as it is, in an envelope if it begins like one itself: else it would be taken for one when it is read.
// dst is as for Compress.
func (c *Compressor) Wrap(dst, value []byte) []byte {
	if dst == nil {
		dst = GetBuffer(len(value) + cinch.MaxHeaderLen)
	}
	if !cinch.IsSealed(value) {
		return append(dst, value...)
	}
	start := len(dst)
	out := c.Sealer.Escape(dst, value)
	c.Stats.Sealed("escape", codec.Raw, len(value), len(out)-start, 0)
	return out
}
