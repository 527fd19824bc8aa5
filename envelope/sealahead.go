package envelope

import (
	"hash/crc32"

	"github.com/cinch-layer/cinch/codec"
)

// Ahead seals one value while its bytes still arrive, so that little is left to do when the last byte is there. The
// result opens to the same value as that of Seal, but its bytes may differ, since a zstd frame may be divided into
// other blocks. It is not safe for concurrent use. It must be closed, also after Seal.
//
//	a := s.Ahead(nil, value, setting) // value already has its full length
//	if a == nil { … }                 // use s.Seal when all bytes have arrived
//	defer a.Close()
//	for … { a.Arrived(n) }            // the first n bytes have arrived
//	out, outcome := a.Seal(worth)     // all bytes have arrived
type Ahead struct {
	s      *Sealer
	st     codec.Setting
	value  []byte
	frame  codec.FrameWriter // nil after an error: then Seal starts over
	header Header
	out    []byte // room for the header, and the payload so far
	done   int    // bytes of value compressed so far
}

// MinAhead is the length in bytes of the shortest value for which Ahead pays off.
const MinAhead = 512 << 10

// Ahead begins to seal value, whose bytes have yet to arrive. It overwrites buf, which may be nil, and owns it
// until Seal returns the result in it or in a larger buffer. It returns nil if AheadBytes returns 0 for the
// value's length.
//
// value must not be reused before Close, and bytes that have arrived must not change. The caller should wait
// for the beginning of the value, and not call Ahead if codec.Incompressible reports true for that.
func (s *Sealer) Ahead(buf, value []byte, st codec.Setting) *Ahead {
	if s.AheadBytes(len(value), st) == 0 {
		return nil
	}
	a := &Ahead{s: s, st: st, value: value}
	a.header = Header{Version: Version, Codec: st.Codec, RawLen: len(value)}
	var err error
	if a.frame, err = s.engine.FrameWriter(value, st); err != nil {
		return nil
	}
	a.out = a.header.Append(buf[:0])
	return a
}

// AheadBytes returns an upper estimate of the memory that sealing a value of rawLen bytes ahead takes besides
// the value and its sealed form, in bytes. It returns 0 if that is not supported: for codecs other than zstd,
// with dictionaries, for lengths below MinAhead or above MaxRaw, and if the encoder would take more than
// twice the value. With so large an encoder compression takes much longer than the value takes to arrive.
func (s *Sealer) AheadBytes(rawLen int, st codec.Setting) int {
	if st.Codec != codec.Zstd || st.Dict != 0 || rawLen < MinAhead || rawLen > s.maxRaw {
		return 0
	}
	n := s.engine.FrameBytes(rawLen, st)
	if n > 2*rawLen {
		return 0
	}
	return n
}

// Arrived compresses the first n bytes of the value, which have arrived, as far as they fill whole blocks. n
// counts from the beginning of the value and must never decrease.
func (a *Ahead) Arrived(n int) {
	if a.frame == nil {
		return
	}
	a.header.Checksum = crc32.Update(a.header.Checksum, crc32.IEEETable, a.value[a.done:n])
	a.done = n
	out, err := a.frame.Append(a.out, n)
	if err != nil {
		a.Close()
		return
	}
	a.out = out
}

// Is reports whether a was made with this setting and this value, that is the same memory, not equal bytes. a
// may be nil.
func (a *Ahead) Is(value []byte, st codec.Setting) bool {
	return a != nil && len(value) == len(a.value) && &value[0] == &a.value[0] && st == a.st
}

// Seal returns the sealed value, as SealOutcome with an empty dst does. All of the value must have arrived.
// The caller owns the returned memory. Seal must be called at most once.
func (a *Ahead) Seal(worth func(raw, sealed int) bool) ([]byte, Outcome) {
	a.Arrived(len(a.value))
	out := a.out
	a.out = nil
	if a.frame == nil || codec.CheckFrame(out[len(a.header.Append(out[:0])):], len(a.value)) != nil { // it would never open
		return a.s.SealOutcome(out[:0], a.value, a.st, worth)
	}
	if worth == nil {
		worth = saves
	}
	if worth(len(a.value), len(out)) {
		return out, Outcome{Sealed: true, Codec: a.st.Codec}
	}
	return a.s.plain(out[:0], a.value, a.st, worth)
}

// Close releases the encoder. It may be called at any time, and on nil.
func (a *Ahead) Close() {
	if a != nil && a.frame != nil {
		a.frame.Close()
		a.frame = nil
	}
}
