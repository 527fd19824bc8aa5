package cinch

import (
	"hash/crc32"

	"github.com/cinch-layer/cinch/codec"
)

// Seal appends the envelope of value to dst, or value itself if that is the
// better choice, and returns the extended buffer. It never fails.
//
// worth decides whether sealed bytes (header included) in place of raw bytes
// are a gain; nil means any saving is. If it declines the compressed form, or
// there is none, it is asked once more about the uncompressed one: only a
// test that wants everything sealed, even at a loss, says yes to that. A
// setting of codec Raw compresses nothing and worth is not asked.
//
// A value that begins with the magic is wrapped in any case: compressed if
// that is worth it, otherwise as Escape does. Values longer than MaxRaw are
// not compressed. Only one buffer is used, dst: a caller that gives it a
// capacity of the value's length plus MaxHeaderLen and a few hundred bytes
// more sees no allocation.
func (s *Sealer) Seal(dst, value []byte, st codec.Setting, worth func(raw, sealed int) bool) []byte {
	start := len(dst)
	if out, d, ok := s.compress(dst, value, st, Foreign{}); ok {
		if isWorth(worth, len(value), len(out)-start) {
			putTag(d, out[start:])
			return out
		}
		dst = out[:start] // keep the room that compress made
	}
	return s.plain(dst, value, st, worth)
}

// plain appends the uncompressed form of value, wrapped where that must be or is wanted.
func (s *Sealer) plain(dst, value []byte, st codec.Setting, worth func(raw, sealed int) bool) []byte {
	if IsSealed(value) || st.Codec != codec.Raw && isWorth(worth, len(value), escapedLen(len(value))) {
		return s.Escape(dst, value)
	}
	return append(dst, value...)
}

// escapedLen is the length in bytes of what Escape appends.
func escapedLen(rawLen int) int {
	n := fixedLen + checksumLen + 1 + rawLen
	for v := rawLen >> 7; v > 0; v >>= 7 {
		n++
	}
	return n
}

// Escape appends an envelope that holds value as it is (codec Raw).
func (s *Sealer) Escape(dst, value []byte) []byte {
	h := Header{Version: Version, Codec: codec.Raw, RawLen: len(value), Checksum: crc32.ChecksumIEEE(value)}
	return append(h.Append(dst), value...)
}

func isWorth(worth func(raw, sealed int) bool, raw, sealed int) bool {
	if worth == nil {
		return sealed < raw
	}
	return worth(raw, sealed)
}

// compress appends header, still without its tag, and payload to dst, and returns the dictionary
// that it took. When it reports false, dst is to be used as it was.
func (s *Sealer) compress(dst, value []byte, st codec.Setting, of Foreign) ([]byte, *codec.Dict, bool) {
	if st.Codec == codec.Raw || !st.Codec.Known() || len(value) == 0 || len(value) > s.maxRaw {
		return dst, nil, false
	}
	h := Header{Version: Version, Codec: st.Codec, RawLen: len(value), Foreign: of}
	var d *codec.Dict
	if st.Dict != 0 {
		var err error
		if d, err = s.dictionary(st.Dict); err != nil || !takesDict(st.Codec) {
			return dst, nil, false
		}
		h.HasDict, h.Dict = true, st.Dict
	} else if codec.Incompressible(value) {
		return dst, nil, false // with a dictionary even noise may be known
	} else {
		h.Checksum = h.sum(value)
	}
	out, err := s.engine.Compress(h.Append(dst), value, st, d)
	if err != nil {
		return dst, nil, false
	}
	return out, d, true
}
