package mask

import (
	"crypto/rand"
	"crypto/sha256"
	"iter"
	"math"
	"unicode/utf8"
)

// Key says which permutation it is. Make it with New.
type Key struct{ secret [32]byte }

// New returns a key that nobody else has.
func New() *Key {
	k := &Key{}
	_, _ = rand.Read(k.secret[:]) // never fails
	return k
}

// Bytes appends as many bytes as a value has.
func (k *Key) Bytes(dst, value []byte) []byte {
	for piece, after := range pieces(value, false) {
		all := make([]digit, len(piece))
		for i, b := range piece {
			all[i] = digit{uint32(b), 256}
		}
		k.permute(all, after)
		for _, d := range all {
			dst = append(dst, byte(d.value))
		}
	}
	return dst
}

// Text appends a text of as many bytes, whose characters take as many bytes each: printable ones for printable ones. Control characters
// stay. What is no UTF-8 is taken as bytes.
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

// pieceBytes bounds what is permuted at once, and so the memory that a long value takes. What of two values is equal up to there can be seen.
const pieceBytes = 64 << 10

// pieces of a value, each with a digest of those before it. Those of a text end where a character does.
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

// width is characters that take equally many bytes.
type width struct {
	first, behind rune // those between
	gap           rune // what comes from surrogates on is moved down by so many
	low           rune
}

// Surrogates are no characters.
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

// appendRune appends a character's digits; none for those that stay.
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

// takeRune makes the character of the next digits, in the place of r.
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

// Bits permutes the lower bits of a number, which are a multiple of four. The upper ones stay.
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

// Integer permutes those of 32 bits among themselves, and the others.
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

// mantissa of a float64.
const mantissa = 52

// Float permutes whole numbers of 32 bits as Integer does, since servers take them for the same. Others keep sign and exponent.
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
