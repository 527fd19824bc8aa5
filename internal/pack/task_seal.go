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

	scratch sync.Pool // *[]byte, for opening
}

// Wants is true for keys that a rule may cover.
func (t *Seal) Wants(db string, key []byte) bool { return t.Rule != nil || t.Policy.MaySeal(db, key) }

// Judge seals, and opens what it sealed.
func (t *Seal) Judge(db string, v *store.Value) Verdict {
	if v.Type == store.Hash && t.Indexed != nil && t.Indexed(v.Key) {
		return Verdict{Left: Indexed}
	}
	plain := v.Stored
	var old cinch.Header
	if cinch.IsSealed(v.Stored) {
		if t.To == (codec.Setting{}) {
			return Verdict{Left: AlreadySealed}
		}
		var err error
		if plain, err = t.Sealer.Open(nil, v.Stored); err != nil {
			return unopened(err)
		}
		old, _ = cinch.ParseHeader(v.Stored)
	}
	if policy.NeverSeal(plain) {
		return Verdict{Left: Computed}
	}
	rule := t.rule(db, v, len(plain))
	if rule == nil || rule.Observe {
		return Verdict{Left: NoRule}
	}
	return t.seal(v, plain, rule, old)
}

func (t *Seal) rule(db string, v *store.Value, size int) *policy.Rule {
	if t.Rule != nil {
		return t.Rule(db, v, size)
	}
	return t.Policy.Lookup(policy.Address{Space: db, Key: v.Key, Field: v.Field, Type: v.Type, Size: size})
}

func (t *Seal) seal(v *store.Value, plain []byte, rule *policy.Rule, old cinch.Header) Verdict {
	st := rule.Setting
	if t.To != (codec.Setting{}) {
		st = t.To
	}
	if st.Dict != 0 && !t.Ready(st.Dict) {
		return Verdict{Stop: fmt.Errorf("%w %08x", ErrNoDictionary, st.Dict)}
	}
	sealed := t.Sealer.Seal(nil, plain, st, rule.WorthFunc(v.Type))
	if !cinch.IsSealed(sealed) {
		if old.Len > 0 && t.Always && another(st, old) {
			return Verdict{Replace: true, New: sealed} // plain: a small value is worth sealing with its old dictionary only
		}
		return Verdict{Left: NoGain}
	}
	if old.Len > 0 && !t.better(v, sealed, rule, old) {
		return Verdict{Left: AlreadySealed}
	}
	if err := t.verify(sealed, plain); err != nil {
		return Verdict{Stop: err}
	}
	return Verdict{Replace: true, New: sealed}
}

// better reports whether one envelope should take the place of another. Levels are not
// in an envelope, so that only the size can tell.
func (t *Seal) better(v *store.Value, sealed []byte, rule *policy.Rule, old cinch.Header) bool {
	if bytes.Equal(sealed, v.Stored) {
		return false
	}
	h, err := cinch.ParseHeader(sealed)
	if err != nil {
		return false
	}
	return another(codec.Setting{Codec: h.Codec, Dict: h.Dict}, old) && t.Always || rule.Worth(v.Type, len(v.Stored), len(sealed))
}

func another(st codec.Setting, old cinch.Header) bool {
	return st.Codec != old.Codec || st.Dict != old.Dict
}

// verify opens an envelope that is about to replace a value.
func (t *Seal) verify(sealed, plain []byte) error {
	buf, _ := t.scratch.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	defer t.scratch.Put(buf)
	opened, err := t.Sealer.Open((*buf)[:0], sealed)
	*buf = opened
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMismatch, err)
	}
	if !bytes.Equal(opened, plain) {
		return ErrMismatch
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

// Shrinks is true: that is what sealing is for.
func (t *Seal) Shrinks() bool { return true }

// Sampling shows the plain values that Seal would look at, and replaces none.
type Sampling struct {
	*Seal
	See func(rule *policy.Rule, v *store.Value)
}

// Judge shows a value that a rule covers.
func (t *Sampling) Judge(db string, v *store.Value) Verdict {
	if cinch.IsSealed(v.Stored) {
		return Verdict{Left: AlreadySealed}
	}
	if policy.NeverSeal(v.Stored) {
		return Verdict{Left: Computed}
	}
	rule := t.rule(db, v, len(v.Stored))
	if rule == nil {
		return Verdict{Left: NoRule}
	}
	t.See(rule, v)
	return Verdict{Left: NoGain}
}
