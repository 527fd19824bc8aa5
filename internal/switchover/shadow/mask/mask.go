package mask

import (
	"crypto/rand"
	"crypto/sha256"
	"iter"
	"math"
	"unicode/utf8"
)

// Key determines the permutation. Make it with New.
type Key struct{ secret [32]byte }

// New returns a random key.
func New() *Key {
	k := &Key{}
	_, _ = rand.Read(k.secret[:]) // never fails
	return k
}

// Bytes appends the masked bytes of a value, as many as it has.
func (k *Key) Bytes(dst, value []byte) []byte {
	for piece, after := range pieces(value, false) {
		n := len(dst)
		dst = append(dst, piece...)
		k.permuteBytes(dst[n:], after)
	}
	return dst
}

// Text appends the masked characters of a text. Each is replaced by one of as many bytes, printable ones by
// printable ones. Control characters stay. A value that is not UTF-8 is masked as bytes.
func (k *Key) Text(dst, value []byte) []byte {
	if !utf8.Valid(value) {
		return k.Bytes(dst, value)
	}
	for piece, after := range pieces(value, true) {
		all := make([]digit, 0, len(piece))
		for _, r := range string(piece) {
			all = appendRune(all, r)
		}
		k.permute(all, after)
		for _, r := range string(piece) {
			var made rune
			made, all = takeRune(all, r)
			dst = utf8.AppendRune(dst, made)
		}
	}
	return dst
}

// pieceBytes limits the bytes that are permuted at once, and so the memory for a long value. The masked values show up
// to which piece two values are equal.
const pieceBytes = 64 << 10

// pieces yields the pieces of a value, each with a digest of those before it. Pieces of a text end where a
// character does.
func pieces(value []byte, text bool) iter.Seq2[[]byte, []byte] {
	return func(yield func(piece, after []byte) bool) {
		var before []byte
		for len(value) > 0 {
			n := min(len(value), pieceBytes)
			for text && n < len(value) && !utf8.RuneStart(value[n]) {
				n--
			}
			if !yield(value[:n], before) {
				return
			}
			sum := sha256.Sum256(append(before, value[:n]...))
			before, value = sum[:], value[n:]
		}
	}
}

// width describes the characters that take the same number of bytes in UTF-8.
type width struct {
	first, behind rune // first <= character < behind
	gap           rune // number of surrogates within the range, which are skipped
	low           rune
}

// Range of the surrogates, which are not characters.
const (
	surrogates = 0xd800
	noLonger   = 0xe000
)

var widths = []width{{first: ' ', behind: 0x7f, low: 1}, {first: 0x80, behind: 0x800, low: 64}, {first: 0x800, behind: 0x10000, gap: noLonger - surrogates, low: 64}, {first: 0x10000, behind: 0x110000, low: 1024}}

func widthOf(r rune) *width {
	for i := range widths {
		if w := &widths[i]; r >= w.first && r < w.behind {
			return w
		}
	}
	return nil
}

// appendRune appends a character's digits; none for one that stays.
func appendRune(all []digit, r rune) []digit {
	w := widthOf(r)
	if w == nil {
		return all
	}
	n := w.behind - w.first - w.gap
	if r >= noLonger {
		r -= w.gap
	}
	at := r - w.first
	if w.low == 1 {
		return append(all, digit{uint32(at), uint32(n)})
	}
	return append(all, digit{uint32(at / w.low), uint32(n / w.low)}, digit{uint32(at % w.low), uint32(w.low)})
}

// takeRune returns the character of the next digits, which replaces r.
func takeRune(all []digit, r rune) (rune, []digit) {
	w := widthOf(r)
	if w == nil {
		return r, all
	}
	at, rest := rune(all[0].value), all[1:]
	if w.low > 1 {
		at, rest = at*w.low+rune(rest[0].value), rest[1:]
	}
	made := w.first + at
	if w.gap > 0 && made >= surrogates {
		made += w.gap
	}
	return made, rest
}

// Bits permutes the lower bits of a number; bits must be a multiple of four. The upper ones stay.
func (k *Key) Bits(v uint64, bits int) uint64 {
	const each = 4
	all := make([]digit, bits/each)
	for i := range all {
		all[i] = digit{uint32(v >> (i * each) % (1 << each)), 1 << each}
	}
	k.permute(all, nil)
	v = v >> bits << bits
	for i, d := range all {
		v |= uint64(d.value) << (i * each)
	}
	return v
}

// Integer permutes numbers that fit into 32 bits among themselves, and the others among themselves.
func (k *Key) Integer(v int64) int64 {
	if small(v) {
		return int64(int32(k.Bits(uint64(uint32(v)), 32)))
	}
	for {
		if v = int64(k.Bits(uint64(v), 64)); !small(v) {
			return v
		}
	}
}

func small(v int64) bool { return v == int64(int32(v)) }

// mantissa is the number of mantissa bits of a float64.
const mantissa = 52

// Float permutes whole numbers that fit into 32 bits like Integer, since servers treat them as equal. Others
// keep sign and exponent.
func (k *Key) Float(v float64) float64 {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return v
	case whole(v):
		return float64(k.Integer(int64(v)))
	}
	for {
		if v = math.Float64frombits(k.Bits(math.Float64bits(v), mantissa)); !whole(v) {
			return v
		}
	}
}

func whole(v float64) bool { return v == float64(int32(v)) }
