package envelope

import (
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch/codec"
)

// Open appends the value of stored to dst: for an envelope the value that was sealed, for bytes that don't
// begin with the magic those bytes. On an error it returns dst unchanged.
//
// The error wraps ErrDamaged, ErrUnknownCodec, ErrDictMissing, ErrTooLarge, codec.ErrDictionary if zstd rejects
// the dictionary, or an error of Dictionaries.
//
// Open allocates no more than the length that the header declares, after checking it against MaxOpen, plus
// what decoders hold in their pools. For a value that another library had compressed it allocates the content
// and the value.
func (s *Sealer) Open(dst, stored []byte) ([]byte, error) {
	if !IsSealed(stored) {
		return append(dst, stored...), nil
	}
	h, err := ParseHeader(stored)
	if err != nil {
		return dst, err
	}
	return s.OpenParsed(dst, stored, h)
}

// OpenParsed is Open for a caller that has parsed the header. stored is the whole envelope, and h must be what
// ParseHeader returned for it.
func (s *Sealer) OpenParsed(dst, stored []byte, h Header) ([]byte, error) {
	if h.IsForeign() {
		return s.openForeign(dst, stored, h)
	}
	return s.OpenContentParsed(dst, stored, h)
}

// OpenContent is Open, except that for a value that another library had compressed it appends the content.
func (s *Sealer) OpenContent(dst, stored []byte) ([]byte, error) {
	h, err := ParseHeader(stored)
	if err != nil || !h.IsForeign() {
		return s.Open(dst, stored)
	}
	return s.OpenContentParsed(dst, stored, h)
}

// OpenContentParsed is OpenContent for a caller that has parsed the header. stored is the whole envelope, and h
// must be what ParseHeader returned for it. It appends exactly h.RawLen bytes: the value, or the content of a
// foreign one.
func (s *Sealer) OpenContentParsed(dst, stored []byte, h Header) (out []byte, err error) {
	payload := stored[h.Len:]
	switch {
	case !h.Codec.Known():
		return dst, fmt.Errorf("%w: %d", ErrUnknownCodec, uint8(h.Codec))
	case h.Codec == codec.Raw: // no larger than the input, so MaxOpen does not apply
		out = append(dst, payload...)
	case h.RawLen > s.maxOpen:
		return dst, fmt.Errorf("%w: %d bytes, at most %d are opened", ErrTooLarge, h.RawLen, s.maxOpen)
	default:
		var d *codec.Dict
		if h.HasDict {
			if d, err = s.dictionary(h.Dict); err != nil {
				return dst, err
			}
			if err = h.checkTag(d, stored); err != nil { // nothing is decoded before this check
				return dst, err
			}
		}
		if out, err = s.engine.Decompress(dst, payload, h.Codec, h.RawLen, d); err != nil {
			if errors.Is(err, codec.ErrCorrupt) {
				err = fmt.Errorf("%w: %w", ErrPayload, err)
			}
			return dst, err
		}
	}
	if n := len(out) - len(dst); n != h.RawLen {
		return dst, fmt.Errorf("%w: %d bytes, %d declared", ErrPayload, n, h.RawLen)
	}
	if !h.HasDict && checksum(out[len(dst):], h.Foreign) != h.Checksum {
		return dst, ErrChecksum
	}
	return out, nil
}
