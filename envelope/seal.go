package envelope

import (
	"hash/crc32"

	"github.com/cinch-layer/cinch/codec"
)

// Outcome is the result of sealing a value.
type Outcome struct {
	Sealed bool     // an envelope was appended; otherwise the value, unchanged
	Codec  codec.ID // of the envelope; Raw if it holds the value uncompressed
}

// Seal appends the envelope of value to dst, or value itself if that is better, and returns the extended
// buffer. It never fails: if st is invalid, or its dictionary is not found, the value is not compressed.
//
// worth reports whether it is worth storing sealed bytes, header included, in place of raw bytes; nil accepts
// any saving. After it has declined the compressed form, or if there is none, it is called with the length of
// the uncompressed envelope, which is longer than the value. Only tests that want everything sealed should
// accept that. For codec Raw nothing is compressed and worth is not called.
//
// A value that begins with the magic is always wrapped: compressed if that is worth it, otherwise as by
// Escape. Values longer than MaxRaw are not compressed. Seal uses no buffer but dst, and does not reallocate
// it if it has room for [MaxSealedLen] bytes.
func (s *Sealer) Seal(dst, value []byte, st codec.Setting, worth func(raw, sealed int) bool) []byte {
	out, _ := s.SealOutcome(dst, value, st, worth)
	return out
}

// SealOutcome is Seal with an Outcome, so that callers need not parse the result.
func (s *Sealer) SealOutcome(dst, value []byte, st codec.Setting, worth func(raw, sealed int) bool) ([]byte, Outcome) {
	if out, ok := s.compress(dst, value, st, Foreign{}, len(value), worth); ok {
		return out, Outcome{Sealed: true, Codec: st.Codec}
	}
	return s.plain(dst, value, st, worth)
}

// SealContent seals a value of n bytes that a library had compressed, given its content. It appends an
// envelope of content to dst. If that is not worth it, it returns dst unchanged and an Outcome that is not
// Sealed: the caller then stores the library's value. worth is called with n as the raw length.
//
// Open restores the value from the envelope by compressing content again in the format and at the level of
// of, so the caller should have checked that clientformat.Append makes the same bytes. If of is zero, Open
// returns content instead.
func (s *Sealer) SealContent(dst, content []byte, of Foreign, n int, st codec.Setting, worth func(raw, sealed int) bool) ([]byte, Outcome) {
	if out, ok := s.compress(dst, content, st, of, n, worth); ok {
		return out, Outcome{Sealed: true, Codec: st.Codec}
	}
	if of.Format != 0 {
		return dst, Outcome{}
	}
	if worth == nil {
		worth = saves
	}
	out, did := s.plain(dst, content, st, func(_, sealed int) bool { return worth(n, sealed) })
	if !did.Sealed {
		return dst, Outcome{}
	}
	return out, did
}

// compress appends an envelope of value, compressed by st, and reports whether storing that in place of raw bytes is
// worth it. If it is not, or can't be done, it returns dst with its old content.
func (s *Sealer) compress(dst, value []byte, st codec.Setting, of Foreign, raw int, worth func(raw, sealed int) bool) ([]byte, bool) {
	if st.Codec == codec.Raw || len(value) == 0 || len(value) > s.maxRaw {
		return dst, false
	}
	h := Header{Version: Version, Codec: st.Codec, RawLen: len(value), Foreign: of}
	var d *codec.Dict
	if st.Dict != 0 {
		var err error
		if d, err = s.dictionary(st.Dict); err != nil || st.Codec != codec.Zstd {
			return dst, false
		}
		h.HasDict, h.Dict = true, st.Dict
	} else if st.Codec.Incompressible(value) {
		return dst, false // not checked with a dictionary, which may contain even noise
	} else {
		h.Checksum = checksum(value, of)
	}
	start := len(dst)
	out := h.Append(dst)
	h.Len = len(out) - start
	out, err := s.engine.Compress(out, value, st, d)
	if err != nil {
		return dst, false
	}
	if worth == nil {
		worth = saves
	}
	if !worth(raw, len(out)-start) {
		return out[:start], false // keeps the grown buffer
	}
	if d != nil {
		tag := h.tag(d, out[start:])
		copy(out[start+h.tagAt():], tag[:])
	}
	return out, true
}

// plain appends the uncompressed form of value, wrapped if that is necessary or worth it.
func (s *Sealer) plain(dst, value []byte, st codec.Setting, worth func(raw, sealed int) bool) ([]byte, Outcome) {
	if IsSealed(value) || st.Codec != codec.Raw && worth != nil && worth(len(value), escapedLen(len(value))) {
		return s.Escape(dst, value), Outcome{Sealed: true, Codec: codec.Raw}
	}
	return append(dst, value...), Outcome{Codec: codec.Raw}
}

// MaxSealedLen returns the free capacity in bytes with which dst never has to grow when a value of n bytes is
// sealed by a setting.
func MaxSealedLen(st codec.Setting, n int) int {
	return MaxHeaderLen + codec.MaxEncodedLen(st.Codec, n)
}

// escapedLen returns the length in bytes of what Escape appends.
func escapedLen(rawLen int) int {
	n := fixedLen + checksumLen + 1 + rawLen
	for v := rawLen >> 7; v > 0; v >>= 7 {
		n++
	}
	return n
}

// Escape appends an envelope that holds value uncompressed (codec Raw).
func (s *Sealer) Escape(dst, value []byte) []byte {
	h := Header{Version: Version, Codec: codec.Raw, RawLen: len(value), Checksum: crc32.ChecksumIEEE(value)}
	return append(h.Append(dst), value...)
}

// saves reports whether sealing saves a byte; it is the default of worth.
func saves(raw, sealed int) bool { return sealed < raw }
