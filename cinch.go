// Package cinch seals values into envelopes and opens them again. An envelope
// is a header of 10 to 22 bytes and the compressed value; docs/FORMAT.md
// describes it, header.go has its picture.
//
// Sealing can't fail: a value that gains nothing, or that anything goes wrong
// with, comes out as it went in. Opening gives back exactly the value or an
// error, and passes bytes that don't begin with the magic unchanged. So that
// both hold together, a value that itself begins with the magic is always wrapped.
//
// A Sealer is safe for concurrent use. Buffers belong to the caller: dst is
// appended to and must not overlap the input, and nothing of the input is
// kept after a call returns.
package cinch

import (
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch/codec"
)

// DefaultMaxRaw is the longest value, in bytes, that is compressed, and the
// longest that a compressed envelope may declare at least, unless SealerOptions
// says otherwise.
const DefaultMaxRaw = 32 << 20

// What can be wrong with an envelope. Everything that wraps ErrDamaged means
// that the bytes can't be what any version of Cinch wrote, or one far newer.
var (
	ErrDamaged   = errors.New("damaged envelope")
	ErrTruncated = fmt.Errorf("%w: header is cut off", ErrDamaged)
	ErrVersion   = fmt.Errorf("%w: unknown version", ErrDamaged)
	ErrReserved  = fmt.Errorf("%w: reserved flag is set", ErrDamaged)
	ErrHeader    = fmt.Errorf("%w: header is not canonical", ErrDamaged)
	ErrPayload   = fmt.Errorf("%w: payload does not decode", ErrDamaged)
	ErrChecksum  = fmt.Errorf("%w: checksum does not match", ErrDamaged)
	// ErrTag: the envelope names a dictionary, and was damaged or made without it. Nothing
	// was decoded.
	ErrTag = fmt.Errorf("%w: tag does not match", ErrDamaged)
)

// What else Open can answer.
var (
	// ErrUnknownCodec: sealed by a newer version with a codec that this one lacks.
	ErrUnknownCodec = codec.ErrUnknownCodec
	// ErrDictMissing: the dictionary that the envelope names can't be found.
	ErrDictMissing = errors.New("dictionary is missing")
	// ErrTooLarge: the envelope declares more bytes than MaxOpen. Nothing was allocated.
	ErrTooLarge = errors.New("declared length is over the limit")
	// ErrNotSealed: ParseHeader was given bytes without the magic.
	ErrNotSealed = errors.New("not an envelope")
)

// Dictionaries finds dictionaries by number. It is called by Seal and Open
// without locks held and may do I/O; it must be safe for concurrent use. A
// dictionary that does not exist gives an error that wraps ErrDictMissing;
// other errors reach the caller of Open as they are.
type Dictionaries interface {
	Dictionary(number uint32) (*codec.Dict, error)
}

// SealerOptions configure a Sealer. The zero value is ready for use.
type SealerOptions struct {
	Engine *codec.Engine // nil: an engine of its own with default options
	Dicts  Dictionaries  // nil: there are none

	// MaxRaw bounds what is sealed, in bytes: longer values are not compressed.
	// 0: DefaultMaxRaw.
	MaxRaw int
	// MaxOpen bounds what is opened, in bytes: compressed envelopes that declare
	// more are refused. 0: the larger of MaxRaw and DefaultMaxRaw, so that a
	// process that lowers MaxRaw still opens what was sealed before. If it is below MaxRaw,
	// values that are longer than it are not compressed either.
	MaxOpen int
}

// Sealer seals and opens. It holds no state but its options.
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

// Engine is the one that it was made with.
func (s *Sealer) Engine() *codec.Engine { return s.engine }

// MaxRaw is the length in bytes of the longest value that this Sealer compresses.
func (s *Sealer) MaxRaw() int { return s.maxRaw }

// MaxOpen is the length in bytes of the longest value that this Sealer
// decompresses. What codec Raw holds it opens at any length.
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
