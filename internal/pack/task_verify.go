package pack

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/store"
)

var (
	// ErrMagic: a value begins with the magic before Cinch was ever used.
	ErrMagic = errors.New("begins like an envelope")
	// ErrCut: something on the server has worked on the bytes of an envelope.
	ErrCut = fmt.Errorf("%w (its beginning was overwritten)", cinch.ErrDamaged)
	// ErrBehind: an envelope is whole but for its place. Something put bytes before it, or the application keeps envelopes
	// so.
	ErrBehind = fmt.Errorf("%w (a whole envelope behind other bytes)", cinch.ErrDamaged)
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

// Judge opens the value. One that begins with the magic and does not open is damaged, or was written past Cinch: it is
// never counted as plain.
func (t *Verify) Judge(_ string, v *store.Value) Verdict {
	if !cinch.IsSealed(v.Stored) {
		if t.Before {
			return Verdict{Left: Plain}
		}
		return t.judgeHeadless(v.Stored)
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

// maxHeadBytes limits how far into a value judgeHeadless looks for an envelope.
const maxHeadBytes = 256

// judgeHeadless finds out whether a value without the magic at its beginning holds an envelope but for the magic,
// perhaps behind other bytes, up to the value's end: a splice or SETRANGE overwrote its beginning. Length and checksum
// (or tag) must be right, so no other bytes are taken for one. What has lost more than the magic can't be told from a
// plain value.
func (t *Verify) judgeHeadless(stored []byte) Verdict {
	var sealed []byte // behind room for the magic, a copy of the value
	for at := range min(len(stored)-1, maxHeadBytes) {
		if stored[at]>>4 != cinch.Version || !codec.ID(stored[at]&15).Known() {
			continue
		}
		if sealed == nil {
			sealed = append([]byte(cinch.Magic), stored...)
		}
		envelope := sealed[at:]
		copy(envelope, cinch.Magic) // over bytes that have been looked at
		h, err := cinch.ParseHeader(envelope)
		if err != nil || h.RawLen == 0 || h.RawLen > cinch.DefaultMaxRaw || len(h.Ext) > 0 { // no writer adds words
			continue
		}
		if _, err := t.Sealer.Open(nil, envelope); err == nil {
			if bytes.HasSuffix(stored[:at], []byte(cinch.Magic)) {
				return Verdict{Problem: ErrBehind}
			}
			return Verdict{Problem: ErrCut}
		}
	}
	return Verdict{Left: Plain}
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
