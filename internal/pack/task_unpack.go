package pack

import (
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/store"
)

// Why a sealed value can't be put back.
var (
	// ErrMustStay: the value itself begins with the magic.
	ErrMustStay = errors.New("the value begins like an envelope, so it must stay wrapped")
	// ErrImmutable: the value is in a stream's entry.
	ErrImmutable = errors.New("entries of streams can't be changed")
	// ErrNotReplaced: the value could be neither read nor replaced.
	ErrNotReplaced = errors.New("not put back")
)

// Unpack puts sealed values back.
type Unpack struct {
	Sealer *cinch.Sealer
	Match  func(db string, key []byte) bool // nil: all keys
}

// Wants is true for all keys, or those that match.
func (t *Unpack) Wants(db string, key []byte) bool { return t.Match == nil || t.Match(db, key) }

// Judge opens sealed values. Opening checks the value against its checksum.
func (t *Unpack) Judge(_ string, v *store.Value) Verdict {
	if !cinch.IsSealed(v.Stored) {
		return Verdict{Left: Plain}
	}
	if v.Type == store.Stream {
		return Verdict{Problem: ErrImmutable}
	}
	plain, err := t.Sealer.Open(nil, v.Stored)
	switch {
	case err != nil:
		return unopened(err)
	case cinch.IsSealed(plain):
		return Verdict{Problem: ErrMustStay}
	}
	return Verdict{Replace: true, New: plain}
}

// Skipped lists what may be sealed still.
func (t *Unpack) Skipped(_ *store.Value, why store.Reason) error {
	switch why {
	case store.Gone, store.OtherType:
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNotReplaced, because(why))
}

// Shrinks is false.
func (t *Unpack) Shrinks() bool { return false }
