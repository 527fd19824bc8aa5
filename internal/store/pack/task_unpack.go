package pack

import (
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

// Reasons why a compressed value can't be decompressed in place.
var (
	// ErrMustStay: the value itself begins with the magic.
	ErrMustStay = errors.New("the value begins like an envelope, so it must stay wrapped")
	// ErrLooksForeign: gateways would decompress the plain value for clients.
	ErrLooksForeign = errors.New("the value looks like one that a library has compressed, and its rule says to: plain; remove format and to from the rule first")
	// ErrImmutable: the value is in a stream entry.
	ErrImmutable = errors.New("entries of streams can't be changed")
	// ErrNotReplaced: the value could not be read or replaced.
	ErrNotReplaced = errors.New("not decompressed in place")
)

// Unpack decompresses values in place.
type Unpack struct {
	Sealer *envelope.Sealer
	Match  func(db string, key []byte) bool // nil: all keys
	Policy *policy.Policy                   // of the gateways; nil: one without rules with to: plain
}

// Wants reports whether the key matches.
func (t *Unpack) Wants(db string, key []byte) bool { return t.Match == nil || t.Match(db, key) }

// Decide opens compressed values. Opening checks the value against its checksum or tag.
func (t *Unpack) Decide(db string, v *store.Value) Verdict {
	if !envelope.IsSealed(v.Stored) {
		return Verdict{Skip: Plain}
	}
	if v.Type == store.Stream {
		return Verdict{Problem: ErrImmutable}
	}
	plain, err := t.Sealer.Open(nil, v.Stored)
	switch {
	case err != nil:
		return openFailure(err)
	case envelope.IsSealed(plain):
		return Verdict{Problem: ErrMustStay}
	case t.isUnwrapped(db, v, plain):
		return Verdict{Problem: ErrLooksForeign}
	}
	return Verdict{Replace: true, New: plain}
}

// isUnwrapped reports whether gateways would decompress the plain value for clients, which now get it unchanged.
func (t *Unpack) isUnwrapped(db string, v *store.Value, plain []byte) bool {
	formats := t.Policy.ToPlain(db, v.Key, v.Type)
	if formats == nil {
		return false
	}
	h, err := envelope.ParseHeader(v.Stored)
	return err == nil && !h.IsForeign() && looksForeign(t.Sealer, plain, formats)
}

// OnSkipped reports values that may still be compressed.
func (t *Unpack) OnSkipped(_ *store.Value, why store.Reason) error {
	switch why {
	case store.Gone, store.OtherType:
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNotReplaced, reasonError(why))
}

// Shrinks implements Task.
func (t *Unpack) Shrinks() bool { return false }
