package cinch

import (
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch/codec"
)

// Open appends the value that stored stands for to dst: of an envelope what
// was sealed, of bytes that don't begin with the magic those bytes. On an
// error dst comes back as it was.
//
// Errors: ErrDamaged and those that wrap it, ErrUnknownCodec, ErrDictMissing,
// ErrTooLarge, and whatever Dictionaries answered.
//
// No more is allocated than the length that the header declares (and only
// after that was found to be within MaxOpen), plus what decoders hold in their pools; of a value that another
// library had compressed, that and the value.
func (s *Sealer) Open(dst, stored []byte) ([]byte, error) {
	if !IsSealed(stored) {
		return append(dst, stored...), nil
	}
	h, err := ParseHeader(stored)
	if err != nil {
		return dst, err
	}
	if h.IsForeign() {
		return s.openForeign(dst, stored, h)
	}
	return s.open(dst, stored, h)
}

// open appends what is sealed: the value, or the content of a foreign one.
func (s *Sealer) open(dst, stored []byte, h Header) ([]byte, error) {
	if !h.Codec.Known() {
		return dst, fmt.Errorf("%w: %d", ErrUnknownCodec, uint8(h.Codec))
	}
	out, err := s.decode(dst, stored, h)
	if err != nil {
		return dst, err
	}
	if !h.HasDict && h.sum(out[len(dst):]) != h.Checksum {
		return dst, ErrChecksum
	}
	return out, nil
}

// decode appends what the payload of stored decompresses to, exactly h.RawLen bytes, to dst.
func (s *Sealer) decode(dst, stored []byte, h Header) ([]byte, error) {
	payload := stored[h.Len:]
	if h.Codec == codec.Raw { // bounded by what was received, so MaxOpen is no matter here
		if len(payload) != h.RawLen {
			return dst, fmt.Errorf("%w: %d bytes, %d declared", ErrPayload, len(payload), h.RawLen)
		}
		return append(dst, payload...), nil
	}
	if h.RawLen > s.maxOpen {
		return dst, fmt.Errorf("%w: %d bytes, at most %d are opened", ErrTooLarge, h.RawLen, s.maxOpen)
	}
	d, err := s.entitled(stored, h)
	if err != nil {
		return dst, err
	}
	out, err := s.engine.Decompress(dst, payload, h.Codec, h.RawLen, d)
	if err != nil {
		if errors.Is(err, codec.ErrCorrupt) {
			err = fmt.Errorf("%w: %w", ErrPayload, err)
		}
		return dst, err
	}
	if len(out)-len(dst) != h.RawLen {
		return dst, fmt.Errorf("%w: %d bytes, %d declared", ErrPayload, len(out)-len(dst), h.RawLen)
	}
	return out, nil
}

// entitled returns the dictionary that an envelope names, nil if it names none, after it has shown
// by its tag that its writer had that.
func (s *Sealer) entitled(stored []byte, h Header) (*codec.Dict, error) {
	if !h.HasDict {
		return nil, nil
	}
	d, err := s.dictionary(h.Dict)
	if err != nil {
		return nil, err
	}
	return d, h.checkTag(d, stored)
}
