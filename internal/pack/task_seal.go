package pack

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

// Seal seals plain values as the policy says.
type Seal struct {
	Policy *policy.Policy
	Sealer *cinch.Sealer
	// Rule, if it is not nil, finds the rule for a value of a size, in Policy's place.
	Rule func(db string, v *store.Value, size int) *policy.Rule
	// Indexed, if it is not nil, reports that a hash has to stay plain, since a search index reads it.
	Indexed func(key []byte) bool
	// Ready reports that the server holds a dictionary. It may ask the server.
	Ready func(number uint32) bool

	// To, if it is not zero, takes the place of all rules' settings, and values that are
	// sealed already are sealed anew with it where that frees what their rule asks for.
	To codec.Setting
	// Always seals anew whatever has another codec or dictionary, also when it grows, and
	// puts back what is worth nothing against the plain value: to get rid of a dictionary.
	Always bool
	// AllowRecode has values sealed too that another library has compressed, in the format of their rule, and that come
	// out in other bytes with the same content; or with the content alone, where the rule says to plain.
	AllowRecode bool

	scratch sync.Pool // *[]byte, for opening
}

// Wants is true for keys that a rule may cover.
func (t *Seal) Wants(db string, key []byte) bool {
	return t.Rule != nil || t.Policy.MaySeal(db, key, false)
}

// Judge seals a plain value by its rule, and opens the envelope to see that it holds that value. Values that are sealed
// already, or that a library has compressed, branch off.
func (t *Seal) Judge(db string, v *store.Value) Verdict {
	if v.Type == store.Hash && t.Indexed != nil && t.Indexed(v.Key) {
		return Verdict{Left: Indexed}
	}
	s := subject{value: v, raw: v.Stored}
	if cinch.IsSealed(v.Stored) {
		if d, decided := t.open(db, &s); decided {
			return d
		}
	}
	if policy.NeverSeal(s.raw) {
		return Verdict{Left: Computed}
	}
	rule := t.ruleFor(db, v, len(s.raw))
	if rule == nil || rule.Observe {
		return t.uncovered(db, &s)
	}
	s.content = s.raw
	if rule.Formats != nil {
		if left := t.foreign(&s, rule); left != "" {
			return Verdict{Left: left}
		}
	}
	st := rule.Setting
	if t.To != (codec.Setting{}) {
		st = t.To
	}
	if st.Dict != 0 && !t.Ready(st.Dict) {
		return Verdict{Stop: fmt.Errorf("%w %08x", ErrNoDictionary, st.Dict)}
	}
	sealed, did := t.Sealer.SealContent(nil, s.content, s.as, len(s.raw), st, rule.WorthFunc(v.Type))
	if !did.Sealed {
		return t.unsealed(&s, st, rule)
	}
	if s.old.Len > 0 && !s.recoded && !t.better(&s, sealed, did.Codec, st, rule) {
		return Verdict{Left: AlreadySealed}
	}
	if err := t.verify(sealed, &s); err != nil {
		return Verdict{Stop: err}
	}
	return Verdict{Replace: true, New: sealed, Recoded: s.recoded}
}

// open opens the envelope of a value that may be sealed anew. Otherwise the value is decided: d says how.
func (t *Seal) open(db string, s *subject) (d Verdict, decided bool) {
	var err error
	s.old, err = cinch.ParseHeader(s.value.Stored)
	makesPlain := err == nil && s.old.IsForeign() && t.Policy.ToPlain(db, s.value.Key, s.value.Type) != nil
	switch {
	case makesPlain && !t.AllowRecode:
		return Verdict{Left: OtherBytes}, true
	case t.To == (codec.Setting{}) && !makesPlain:
		return Verdict{Left: AlreadySealed}, true
	}
	if s.raw, err = t.Sealer.Open(nil, s.value.Stored); err != nil {
		return unopened(err), true
	}
	return Verdict{}, false
}

// ruleFor returns the rule for a value of a size; nil: there is none.
func (t *Seal) ruleFor(db string, v *store.Value, size int) *policy.Rule {
	if t.Rule != nil {
		return t.Rule(db, v, size)
	}
	return t.Policy.Lookup(policy.Address{Space: db, Key: v.Key, Field: v.Field, Type: v.Type, Size: size})
}

// subject is a value that is to be sealed.
type subject struct {
	value   *store.Value
	raw     []byte        // as clients get it
	content []byte        // what is sealed: raw, or what a library had compressed into it
	as      cinch.Foreign // that library's format, if clients go on to get it so
	recoded bool          // clients will get other bytes than raw, with the same content
	old     cinch.Header  // of the envelope that holds it already
}

// unsealed judges a value that is worth no compression.
func (t *Seal) unsealed(s *subject, st codec.Setting, rule *policy.Rule) Verdict {
	d := Verdict{Replace: true, Recoded: s.recoded}
	switch {
	case s.recoded && s.as.Format == 0:
		d.New = bare(t.Sealer, s.content, toPlain(rule))
	case s.old.Len > 0 && t.Always && another(st, s.old): // a small value is worth sealing with its old dictionary only
		d.New, d.Recoded = bare(t.Sealer, s.raw, toPlain(rule)), false
	default:
		return Verdict{Left: NoGain}
	}
	if bytes.Equal(d.New, s.value.Stored) {
		return Verdict{Left: AlreadySealed}
	}
	return d
}

// better reports whether a new envelope should take the place of the old one. It was made by a setting, with that codec
// or, where that gained nothing, with Raw. Levels are not in an envelope, so that only the size can tell.
func (t *Seal) better(s *subject, sealed []byte, made codec.ID, st codec.Setting, rule *policy.Rule) bool {
	if bytes.Equal(sealed, s.value.Stored) {
		return false
	}
	if made != st.Codec {
		st = codec.Setting{Codec: made}
	}
	return t.Always && another(st, s.old) || rule.Worth(s.value.Type, len(s.value.Stored), len(sealed))
}

// another reports whether the setting has another codec or dictionary than an envelope.
func another(st codec.Setting, old cinch.Header) bool {
	return st.Codec != old.Codec || st.Dict != old.Dict
}

// verify opens an envelope that is about to replace a value.
func (t *Seal) verify(sealed []byte, s *subject) error {
	buf, _ := t.scratch.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	defer t.scratch.Put(buf)
	h, err := cinch.ParseHeader(sealed)
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

// Skipped lists what was to be sealed and could not be.
func (t *Seal) Skipped(_ *store.Value, why store.Reason) error {
	if why == KeptChanging || why == store.Denied {
		return fmt.Errorf("not sealed: %w", because(why))
	}
	return nil
}

// Shrinks returns true.
func (t *Seal) Shrinks() bool { return true }

// Sampling shows the plain values that Seal would look at, and replaces none.
type Sampling struct {
	*Seal
	See func(rule *policy.Rule, v *store.Value)
}

// Judge shows a value that a rule covers, of one that a library has compressed in the rule's format its content.
func (t *Sampling) Judge(db string, v *store.Value) Verdict {
	if cinch.IsSealed(v.Stored) {
		return Verdict{Left: AlreadySealed}
	}
	if policy.NeverSeal(v.Stored) {
		return Verdict{Left: Computed}
	}
	rule := t.ruleFor(db, v, len(v.Stored))
	if rule == nil {
		return Verdict{Left: NoRule}
	}
	if rule.Formats != nil {
		if content, _, err := t.openForeign(rule.Formats, v.Stored); err == nil {
			opened := *v
			opened.Stored = content
			v = &opened
		}
	}
	t.See(rule, v)
	return Verdict{Left: NoGain}
}
