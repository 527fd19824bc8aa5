package pack

import (
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/store"
)

var (
	// ErrMagic: a value begins with the magic before Cinch was ever used.
	ErrMagic = errors.New("begins like an envelope")
	// ErrNotRead: the value could not be looked at.
	ErrNotRead = errors.New("not read")
)

// Verify opens every sealed value and replaces none.
type Verify struct {
	Sealer *cinch.Sealer
	Before bool // no value should begin with the magic yet
	Match  func(db string, key []byte) bool
}

// Wants is true for all keys, or those that match.
func (t *Verify) Wants(db string, key []byte) bool { return t.Match == nil || t.Match(db, key) }

// Judge opens the value.
func (t *Verify) Judge(_ string, v *store.Value) Verdict {
	if !cinch.IsSealed(v.Stored) {
		return Verdict{Left: Plain}
	}
	_, err := t.Sealer.Open(nil, v.Stored)
	switch {
	case t.Before && err == nil:
		return Verdict{Problem: fmt.Errorf("%w, and opens as one", ErrMagic)}
	case t.Before:
		return Verdict{Problem: fmt.Errorf("%w, but does not open", ErrMagic)}
	case err != nil:
		return unopened(err)
	}
	h, _ := cinch.ParseHeader(v.Stored)
	return Verdict{Left: Opened, Setting: codec.Setting{Codec: h.Codec, Dict: h.Dict}.String()}
}

// Skipped lists what could not be looked at.
func (t *Verify) Skipped(_ *store.Value, why store.Reason) error {
	switch why {
	case store.Denied, store.TooLarge:
		return fmt.Errorf("%w: %w", ErrNotRead, because(why))
	}
	return nil
}

// Shrinks is false.
func (t *Verify) Shrinks() bool { return false }
