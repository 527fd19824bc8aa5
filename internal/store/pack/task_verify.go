package pack

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/store"
)

var (
	// ErrMagic: a value begins with the magic before Cinch was ever used.
	ErrMagic = errors.New("begins like an envelope")
	// ErrCut: another writer on the server has changed the bytes of an envelope.
	ErrCut = fmt.Errorf("%w (its beginning was overwritten)", envelope.ErrDamaged)
	// ErrBehind: a complete envelope follows other bytes. A client prepended those bytes, or the application stores
	// envelopes that way.
	ErrBehind = fmt.Errorf("%w (a whole envelope after other bytes)", envelope.ErrDamaged)
	// ErrNotRead: the value could not be read.
	ErrNotRead = errors.New("not read")
)

// Verify opens every compressed value and replaces none.
type Verify struct {
	Sealer *envelope.Sealer
	Before bool // Cinch was not used yet, so no value should begin with the magic
	Match  func(db string, key []byte) bool
}

// Wants reports whether the key matches.
func (t *Verify) Wants(db string, key []byte) bool { return t.Match == nil || t.Match(db, key) }

// Decide opens the value. One that begins with the magic and does not open is damaged, or was not written by
// Cinch. It is never counted as plain.
func (t *Verify) Decide(_ string, v *store.Value) Verdict {
	if !envelope.IsSealed(v.Stored) {
		if t.Before {
			return Verdict{Skip: Plain}
		}
		return t.checkHeadless(v.Stored)
	}
	_, err := t.Sealer.Open(nil, v.Stored)
	switch {
	case t.Before && err == nil:
		return Verdict{Problem: fmt.Errorf("%w, and decompresses as one", ErrMagic)}
	case t.Before:
		return Verdict{Problem: fmt.Errorf("%w, but can't be decompressed", ErrMagic)}
	case err != nil:
		return openFailure(err)
	}
	h, _ := envelope.ParseHeader(v.Stored)
	return Verdict{Skip: Opened, Setting: codec.Setting{Codec: h.Codec, Dict: h.Dict}.String()}
}

// maxHeadBytes limits how far into a value checkHeadless looks for an envelope.
const maxHeadBytes = 256

// checkHeadless looks for an envelope that lacks only its magic, perhaps after other bytes, and reaches to
// the value's end: a splice or SETRANGE may have overwritten its beginning. Length and checksum (or tag) must
// match, so other bytes are not mistaken for one. An envelope that has lost more than the magic can't be told
// from a plain value.
func (t *Verify) checkHeadless(stored []byte) Verdict {
	var sealed []byte // a copy of the value after room for the magic
	for at := range min(len(stored)-1, maxHeadBytes) {
		if stored[at]>>4 != envelope.Version || !codec.ID(stored[at]&15).Known() {
			continue
		}
		if sealed == nil {
			sealed = append([]byte(envelope.Magic), stored...)
		}
		candidate := sealed[at:]
		copy(candidate, envelope.Magic) // over bytes that were checked already
		h, err := envelope.ParseHeader(candidate)
		if err != nil || h.RawLen == 0 || h.RawLen > envelope.DefaultMaxRaw || len(h.Ext) > 0 { // Cinch writes no extension words
			continue
		}
		if _, err := t.Sealer.Open(nil, candidate); err == nil {
			if bytes.HasSuffix(stored[:at], []byte(envelope.Magic)) {
				return Verdict{Problem: ErrBehind}
			}
			return Verdict{Problem: ErrCut}
		}
	}
	return Verdict{Skip: Plain}
}

// OnSkipped reports values that could not be read.
func (t *Verify) OnSkipped(_ *store.Value, why store.Reason) error {
	switch why {
	case store.Denied, store.TooLarge:
		return fmt.Errorf("%w: %w", ErrNotRead, reasonError(why))
	}
	return nil
}

// Shrinks implements Task.
func (t *Verify) Shrinks() bool { return false }
