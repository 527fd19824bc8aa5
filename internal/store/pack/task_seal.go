package pack

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

// Seal compresses plain values by the policy.
type Seal struct {
	Policy *policy.Policy
	Sealer *envelope.Sealer
	// Rule, if not nil, finds the rule for a value of a size, instead of Policy.
	Rule func(db string, v *store.Value, size int) *policy.Rule
	// Indexed, if not nil, reports whether a hash must stay uncompressed because a search index reads it.
	Indexed func(key []byte) bool
	// Writer, if not nil, returns the user that has written a value, if that is known; see store.Writers. Nil: the
	// rules' settings are for all values.
	Writer func(space string, key []byte) (login string, known bool)
	// OnNobody, if not nil, is called for values that get no dictionary since their writer is unknown.
	OnNobody func(*policy.Rule)
	// Ready reports whether the server holds a dictionary. It may ask the server.
	Ready func(number uint32) bool

	// Override, if not zero, replaces the settings of all rules. Values that are compressed already are compressed
	// again with it if that saves as much as their rule requires.
	Override codec.Setting
	// Force compresses every value again whose envelope has another codec or dictionary than its setting, even if it
	// grows, and decompresses one that is not worth compressing. It serves to get rid of a dictionary.
	Force bool
	// AllowRecode also covers values that another library has compressed, in their rule's format, and that can only
	// be restored to other bytes with the same content. Under a rule with to: plain clients then get only the
	// content.
	AllowRecode bool

	scratch sync.Pool // *[]byte, for verify
}

// Wants reports whether a rule may cover the key.
func (t *Seal) Wants(db string, key []byte) bool {
	return t.Rule != nil || t.Policy.MaySeal(db, key, false)
}

// Decide compresses a plain value by its rule, and opens the envelope to verify that it holds the value.
// Values that are compressed already, or by a library, are handled separately.
func (t *Seal) Decide(db string, v *store.Value) Verdict {
	if v.Type == store.Hash && t.Indexed != nil && t.Indexed(v.Key) {
		return Verdict{Skip: Indexed}
	}
	s := subject{value: v, raw: v.Stored}
	if envelope.IsSealed(v.Stored) {
		if d, decided := t.open(db, &s); decided {
			return d
		}
	}
	if policy.NeverSeal(s.raw) {
		return Verdict{Skip: Computed}
	}
	rule := t.ruleFor(db, v, len(s.raw))
	if rule == nil || rule.Observe {
		return t.decideUncovered(db, &s)
	}
	s.content = s.raw
	if rule.Formats != nil {
		if left := t.foreign(&s, rule); left != "" {
			return Verdict{Skip: left}
		}
	}
	st := t.settingFor(rule, db, v.Key)
	if t.Override != (codec.Setting{}) {
		st = t.Override
	}
	if st.Dict != 0 && !t.Ready(st.Dict) {
		return Verdict{Stop: fmt.Errorf("%w %08x", ErrNoDictionary, st.Dict)}
	}
	sealed, did := t.Sealer.SealContent(nil, s.content, s.as, len(s.raw), st, rule.SavesEnoughFunc(v.Type))
	if !did.Sealed {
		return t.decideUnsealed(&s, st, rule)
	}
	if s.old.Len > 0 && !s.recoded && !t.improves(&s, sealed, did.Codec, st, rule) {
		return Verdict{Skip: AlreadySealed}
	}
	if err := t.verify(sealed, &s); err != nil {
		return Verdict{Stop: err}
	}
	return Verdict{Replace: true, New: sealed, Recoded: s.recoded}
}

// open opens the envelope of a value that may be compressed again. If it may not, decided is true and d is
// the verdict.
func (t *Seal) open(db string, s *subject) (d Verdict, decided bool) {
	var err error
	s.old, err = envelope.ParseHeader(s.value.Stored)
	makesPlain := err == nil && s.old.IsForeign() && t.Policy.ToPlain(db, s.value.Key, s.value.Type) != nil
	switch {
	case makesPlain && !t.AllowRecode:
		return Verdict{Skip: OtherBytes}, true
	case t.Override == (codec.Setting{}) && !makesPlain:
		return Verdict{Skip: AlreadySealed}, true
	}
	if s.raw, err = t.Sealer.Open(nil, s.value.Stored); err != nil {
		return openFailure(err), true
	}
	return Verdict{}, false
}

// ruleFor returns the rule for a value of a size, nil if there is none.
func (t *Seal) ruleFor(db string, v *store.Value, size int) *policy.Rule {
	if t.Rule != nil {
		return t.Rule(db, v, size)
	}
	return t.Policy.Lookup(policy.Address{Space: db, Key: v.Key, Field: v.Field, Type: v.Type, Size: size})
}

// settingFor returns the rule's setting with the dictionary of the user that has written the value, or without one if
// that is unknown.
func (t *Seal) settingFor(rule *policy.Rule, db string, key []byte) codec.Setting {
	if t.Writer == nil || rule.Shared {
		return rule.Setting
	}
	if login, known := t.Writer(db, key); known {
		return rule.SettingFor(login)
	}
	if rule.Auto && t.OnNobody != nil {
		t.OnNobody(rule)
	}
	return rule.SettingForNobody()
}

// subject is a value to be compressed.
type subject struct {
	value   *store.Value
	raw     []byte           // as clients get it
	content []byte           // what is compressed: raw, or its content if a library has compressed it
	as      envelope.Foreign // the library's format, if clients continue to get it
	recoded bool             // clients will get other bytes than raw, with the same content
	old     envelope.Header  // of the value's current envelope
}

// decideUnsealed decides about a value that is not worth compressing.
func (t *Seal) decideUnsealed(s *subject, st codec.Setting, rule *policy.Rule) Verdict {
	d := Verdict{Replace: true, Recoded: s.recoded}
	switch {
	case s.recoded && s.as.Format == 0:
		d.New = plainForm(t.Sealer, s.content, toPlain(rule))
	case s.old.Len > 0 && t.Force && differs(st, s.old): // perhaps only the old dictionary made it worth compressing
		d.New, d.Recoded = plainForm(t.Sealer, s.raw, toPlain(rule)), false
	default:
		return Verdict{Skip: NoGain}
	}
	if bytes.Equal(d.New, s.value.Stored) {
		return Verdict{Skip: AlreadySealed}
	}
	return d
}

// improves reports whether a new envelope should replace the old one. made is the codec that was used: that of
// st, or Raw if st gained nothing. Envelopes don't record levels, so for the same codec and dictionary only
// the size decides.
func (t *Seal) improves(s *subject, sealed []byte, made codec.ID, st codec.Setting, rule *policy.Rule) bool {
	if bytes.Equal(sealed, s.value.Stored) {
		return false
	}
	if made != st.Codec {
		st = codec.Setting{Codec: made}
	}
	return t.Force && differs(st, s.old) || rule.SavesEnough(s.value.Type, len(s.value.Stored), len(sealed))
}

// differs reports whether the setting has another codec or dictionary than an envelope.
func differs(st codec.Setting, old envelope.Header) bool {
	return st.Codec != old.Codec || st.Dict != old.Dict
}

// verify checks that an envelope opens to the value that it is about to replace.
func (t *Seal) verify(sealed []byte, s *subject) error {
	buf, _ := t.scratch.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	defer t.scratch.Put(buf)
	h, err := envelope.ParseHeader(sealed)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMismatch, err)
	}
	opened, err := t.Sealer.OpenContentParsed((*buf)[:0], sealed, h)
	*buf = opened
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMismatch, err)
	}
	if !bytes.Equal(opened, s.content) {
		return ErrMismatch
	}
	if s.as.Format != 0 {
		return t.verifyForeign(sealed, s)
	}
	return nil
}

// OnSkipped reports values that should have been compressed and could not be.
func (t *Seal) OnSkipped(_ *store.Value, why store.Reason) error {
	if why == KeptChanging || why == store.Denied {
		return fmt.Errorf("not compressed: %w", reasonError(why))
	}
	return nil
}

// Shrinks implements Task.
func (t *Seal) Shrinks() bool { return true }

// Sampler passes plain values that Seal would consider to OnSample, and replaces none.
type Sampler struct {
	*Seal
	OnSample func(rule *policy.Rule, db string, v *store.Value)
}

// Decide passes on a value that a rule covers. If a library has compressed it in the rule's format, it passes
// on the content.
func (t *Sampler) Decide(db string, v *store.Value) Verdict {
	if envelope.IsSealed(v.Stored) {
		return Verdict{Skip: AlreadySealed}
	}
	if policy.NeverSeal(v.Stored) {
		return Verdict{Skip: Computed}
	}
	rule := t.ruleFor(db, v, len(v.Stored))
	if rule == nil {
		return Verdict{Skip: NoRule}
	}
	if rule.Formats != nil {
		if content, _, err := t.openForeign(rule.Formats, v.Stored); err == nil {
			opened := *v
			opened.Stored = content
			v = &opened
		}
	}
	t.OnSample(rule, db, v)
	return Verdict{Skip: NoGain}
}
