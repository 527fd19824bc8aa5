package disk

import (
	"encoding/binary"
	"math/bits"
)

// ZFS has had LZ4 r85 (2012) since the beginning and can't change it: the same data has to
// compress to the same bytes. Later versions of LZ4 differ by up to 4 % on long records.
//
// Sequence, as in all of LZ4:
//
//	| token 4+4 bits | more literal length … | literals | offset, 2 bytes | more match length … |
//
// What makes r85 itself: one probe a position in a table of 4096 positions (8192 of 16 bits
// for inputs below 64 KiB and 11), steps that grow every 64 attempts without a match, and
// output limits that are checked with an estimate, so that it gives up a little early.
const (
	lz4MinMatch     = 4
	lz4LastLiterals = 5
	lz4MatchLimit   = 12
	lz4SkipStrength = 6
	lz4MaxDistance  = 1<<16 - 1
	lz4SmallLimit   = 1<<16 + lz4MatchLimit - 1
	lz4HashLog      = 12
	lz4Mask         = 15
)

// lz4State is the table. It is not for concurrent use.
type lz4State struct {
	table [1 << (lz4HashLog + 1)]uint32
}

// compress appends src compressed to dst, which must not become longer than by limit bytes.
// It reports false where it would, as r85 estimates that.
func (s *lz4State) compress(dst, src []byte, limit int) ([]byte, bool) {
	small := len(src) < lz4SmallLimit
	shift := 32 - lz4HashLog
	if small {
		shift--
	}
	table := s.table[:1<<(32-shift)]
	clear(table)
	e := lz4Encoder{dst: dst, start: len(dst), limit: limit, src: src}
	hash := func(at int) uint32 { return lz4Load(src, at) * 2654435761 >> shift }
	near := func(ref, at int) bool { return small || at-ref <= lz4MaxDistance }
	last := len(src) - lz4MatchLimit
	at, anchor := 0, 0
	if len(src) <= lz4MatchLimit {
		return e.end(anchor)
	}
	table[hash(0)] = 0
	at++
	forward := hash(at)
	for {
		ref, attempts, next := 0, 1<<lz4SkipStrength+3, at
		for {
			h := forward
			step := attempts >> lz4SkipStrength
			attempts++
			at = next
			if next = at + step; next > last {
				return e.end(anchor)
			}
			forward = hash(next)
			ref = int(table[h])
			table[h] = uint32(at)
			if near(ref, at) && lz4Load(src, ref) == lz4Load(src, at) {
				break
			}
		}
		for at > anchor && ref > 0 && src[at-1] == src[ref-1] {
			at, ref = at-1, ref-1
		}
		if !e.literals(anchor, at) {
			return dst, false
		}
		for {
			n := lz4Count(src, ref+lz4MinMatch, at+lz4MinMatch)
			if !e.match(at-ref, n) {
				return dst, false
			}
			at += lz4MinMatch + n
			anchor = at
			if at > last {
				return e.end(anchor)
			}
			table[hash(at-2)] = uint32(at - 2)
			h := hash(at)
			ref = int(table[h])
			table[h] = uint32(at)
			if !near(ref, at) || lz4Load(src, ref) != lz4Load(src, at) {
				break
			}
			e.token = len(e.dst)
			e.dst = append(e.dst, 0)
		}
		at++
		forward = hash(at)
	}
}

func lz4Load(b []byte, at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }

// lz4Count is for how many bytes two places are alike. The last five bytes are literals.
func lz4Count(src []byte, ref, at int) int {
	end, n := len(src)-lz4LastLiterals, 0
	for at+n+8 <= end {
		if d := binary.LittleEndian.Uint64(src[ref+n:]) ^ binary.LittleEndian.Uint64(src[at+n:]); d != 0 {
			return n + bits.TrailingZeros64(d)/8
		}
		n += 8
	}
	for at+n < end && src[ref+n] == src[at+n] {
		n++
	}
	return n
}

type lz4Encoder struct {
	dst, src     []byte
	start, limit int
	token        int
}

func (e *lz4Encoder) room(n int) bool { return len(e.dst)-e.start+n <= e.limit }

// literals begins a sequence.
func (e *lz4Encoder) literals(from, to int) bool {
	n := to - from
	e.token = len(e.dst)
	e.dst = append(e.dst, byte(min(n, lz4Mask)<<4))
	if !e.room(n + 2 + 1 + lz4LastLiterals + n>>8) {
		return false
	}
	if n >= lz4Mask {
		e.length(n - lz4Mask)
	}
	e.dst = append(e.dst, e.src[from:to]...)
	return true
}

// match ends one. n is what is alike beyond the first four bytes.
func (e *lz4Encoder) match(offset, n int) bool {
	e.dst = binary.LittleEndian.AppendUint16(e.dst, uint16(offset))
	if !e.room(1 + lz4LastLiterals + n>>8) {
		return false
	}
	e.dst[e.token] |= byte(min(n, lz4Mask))
	if n >= lz4Mask {
		e.length(n - lz4Mask)
	}
	return true
}

func (e *lz4Encoder) length(n int) {
	for ; n > 254; n -= 255 {
		e.dst = append(e.dst, 255)
	}
	e.dst = append(e.dst, byte(n))
}

// end appends what is left as literals.
func (e *lz4Encoder) end(anchor int) ([]byte, bool) {
	n := len(e.src) - anchor
	if !e.room(n + 1 + (n+255-lz4Mask)/255) {
		return e.dst[:e.start], false
	}
	e.dst = append(e.dst, byte(min(n, lz4Mask)<<4))
	if n >= lz4Mask {
		e.length(n - lz4Mask)
	}
	return append(e.dst, e.src[anchor:]...), true
}
