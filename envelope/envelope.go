// Package envelope seals values into envelopes and opens them again. An envelope is a header of 10 to 22 bytes,
// more with extension words, and the compressed value; docs/FORMAT.md describes it, and header.go has a
// picture.
//
// Sealing can't fail: a value that gains nothing, or that can't be compressed, is returned unchanged. Opening
// returns exactly the value or an error, and returns bytes that don't begin with the magic unchanged. So that
// both hold, a value that itself begins with the magic is always wrapped.
//
// A Sealer is safe for concurrent use. The caller owns all buffers: results are appended to dst, which must
// not overlap the input, and no reference to the input is kept after a call returns.
package envelope

import (
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch/codec"
)

// DefaultMaxRaw is the default of SealerOptions.MaxRaw and the smallest default of SealerOptions.MaxOpen, in
// bytes.
const DefaultMaxRaw = 32 << 20

// Errors of damaged envelopes. All wrap ErrDamaged, so callers need only test for that. The bytes were changed
// after they were written, or come from a much newer version of Cinch.
var (
	ErrDamaged   = errors.New("damaged envelope")
	ErrTruncated = fmt.Errorf("%w: header is cut off", ErrDamaged)
	ErrVersion   = fmt.Errorf("%w: unknown version", ErrDamaged)
	ErrReserved  = fmt.Errorf("%w: reserved flag is set", ErrDamaged)
	ErrHeader    = fmt.Errorf("%w: header is not canonical", ErrDamaged)
	ErrPayload   = fmt.Errorf("%w: payload does not decode", ErrDamaged)
	ErrChecksum  = fmt.Errorf("%w: checksum does not match", ErrDamaged)
	// ErrTag: the envelope names a dictionary, and was damaged or made without it. Nothing was decoded.
	ErrTag = fmt.Errorf("%w: tag does not match", ErrDamaged)
)

// Other errors of Open and ParseHeader.
var (
	// ErrUnknownCodec: the envelope was made by a newer version, with a codec that this one lacks.
	ErrUnknownCodec = codec.ErrUnknownCodec
	// ErrDictMissing: the dictionary that the envelope names was not found.
	ErrDictMissing = errors.New("dictionary is missing")
	// ErrTooLarge: the envelope declares more bytes than MaxOpen. Nothing was allocated.
	ErrTooLarge = errors.New("declared length is over the limit")
	// ErrNotSealed: ParseHeader was given bytes without the magic.
	ErrNotSealed = errors.New("not an envelope")
)

// Dictionaries finds dictionaries by number. Seal and Open call it without holding locks, so it may do I/O.
// It must be safe for concurrent use.
type Dictionaries interface {
	// Dictionary returns the dictionary with a number, or an error that wraps ErrDictMissing if there is none.
	// Open returns other errors wrapped; Seal leaves the value uncompressed after any error.
	Dictionary(number uint32) (*codec.Dict, error)
}

// SealerOptions configures a Sealer. The zero value is ready for use.
type SealerOptions struct {
	Engine *codec.Engine // nil: a new engine with default options
	Dicts  Dictionaries  // nil: no dictionaries

	// MaxRaw limits the values that are compressed, in bytes; longer ones are not. 0: DefaultMaxRaw.
	MaxRaw int
	// MaxOpen limits the values that are decompressed, in bytes: for an envelope that declares more, Open
	// returns ErrTooLarge. 0: the larger of MaxRaw and DefaultMaxRaw, so that a process that lowers MaxRaw
	// still opens older envelopes. If it is below MaxRaw, it also limits what is compressed.
	MaxOpen int
}

// Sealer seals and opens values. It has no state other than its options, and is safe for concurrent use.
type Sealer struct {
	engine  *codec.Engine
	dicts   Dictionaries
	maxRaw  int
	maxOpen int // at least maxRaw
}

// NewSealer returns a Sealer. The engine may be shared with other sealers.
func NewSealer(o SealerOptions) *Sealer {
	s := &Sealer{engine: o.Engine, dicts: o.Dicts, maxRaw: o.MaxRaw, maxOpen: o.MaxOpen}
	if s.engine == nil {
		s.engine = codec.New(codec.Options{})
	}
	if s.maxRaw <= 0 {
		s.maxRaw = DefaultMaxRaw
	}
	if s.maxOpen <= 0 {
		s.maxOpen = max(s.maxRaw, DefaultMaxRaw)
	}
	s.maxRaw = min(s.maxRaw, s.maxOpen)
	return s
}

// Engine returns the engine from the options, or the default one.
func (s *Sealer) Engine() *codec.Engine { return s.engine }

// MaxRaw returns the length in bytes of the longest value that this Sealer compresses.
func (s *Sealer) MaxRaw() int { return s.maxRaw }

// MaxOpen returns the length in bytes of the longest value that this Sealer decompresses. It opens envelopes
// with codec Raw at any length.
func (s *Sealer) MaxOpen() int { return s.maxOpen }

func (s *Sealer) dictionary(number uint32) (*codec.Dict, error) {
	if s.dicts == nil {
		return nil, fmt.Errorf("%w: %08x", ErrDictMissing, number)
	}
	d, err := s.dicts.Dictionary(number)
	switch {
	case err == ErrDictMissing || err == nil && (d == nil || d.Number() != number):
		return nil, fmt.Errorf("%w: %08x", ErrDictMissing, number)
	case err != nil:
		return nil, fmt.Errorf("dictionary %08x: %w", number, err)
	}
	return d, nil
}
