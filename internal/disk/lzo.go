package disk

import (
	"encoding/binary"
	"math/bits"
)

// LZO1X-1 as Linux has it (lib/lzo, of 2012), as far as lengths go, and for at most one
// sector of 4 KiB, which is all that btrfs gives it: distances above 16 KiB don't occur.
// The format is described in Linux's Documentation/staging/lzo.rst:
//
//	literals   | 0 to 2 bytes and more of length | bytes |   up to 3: in the instruction before
//	match      | 2 bytes |                                   4 to 8 bytes from at most 2 KiB back
//	           | 1 byte and more of length | 2 bytes |       else
//	end        | 17 0 0 |
//
// The search has one place for each hash of 4 bytes, and takes larger steps the longer it
// finds nothing.
const (
	lzoHashBits  = 13
	lzoTail      = 20 // bytes at the end that are literals
	lzoFirst     = 4  // no match begins before
	lzoMinMatch  = 4
	lzoNear      = 0x800
	lzoNearMatch = 8
	lzoFarMatch  = 33 // longer ones take more bytes for the length
	lzoShort     = 3
	lzoMedium    = 18
	lzoEnd       = 3
	lzoFirstMost = 238 // literals that are described in one byte where nothing else is
)

// lzoTable has the last place of each hash. It is not for concurrent use.
type lzoTable [1 << lzoHashBits]uint16

// length is what LZO makes of a sector.
func (t *lzoTable) length(data []byte) int {
	n, anchor := 0, 0
	if len(data) > lzoTail {
		n, anchor = t.matches(data)
	}
	rest := len(data) - anchor
	if n == 0 && rest <= lzoFirstMost {
		return 1 + rest + lzoEnd
	}
	return n + lzoLiterals(rest) + lzoEnd
}

// matches returns the length of all up to the last match, and the place behind that.
func (t *lzoTable) matches(data []byte) (n, anchor int) {
	clear(t[:])
	end := len(data) - lzoTail
	for at := lzoFirst + 1; at < end; {
		here := binary.LittleEndian.Uint32(data[at:])
		h := here * 0x1824429d >> (32 - lzoHashBits)
		place := int(t[h])
		t[h] = uint16(at)
		if here != binary.LittleEndian.Uint32(data[place:]) {
			at += 1 + (at-anchor)>>5
			continue
		}
		if at > anchor {
			n += lzoLiterals(at - anchor)
		}
		length := lzoAlike(data, place, at, end)
		n += lzoMatch(at-place, length)
		at += length
		anchor = at
	}
	return n, anchor
}

// lzoAlike looks at 8 bytes at a time, as on all 64-bit machines, and stops near the end.
func lzoAlike(data []byte, place, at, end int) int {
	n := lzoMinMatch
	for {
		d := binary.LittleEndian.Uint64(data[at+n:]) ^ binary.LittleEndian.Uint64(data[place+n:])
		if n > lzoMinMatch && at+n >= end {
			return n
		}
		if d != 0 {
			return n + bits.TrailingZeros64(d)/8
		}
		n += 8
	}
}

func lzoLiterals(n int) int {
	switch {
	case n <= lzoShort:
		return n
	case n <= lzoMedium:
		return 1 + n
	}
	return 2 + (n-lzoMedium-1)/255 + n
}

func lzoMatch(distance, length int) int {
	switch {
	case length <= lzoNearMatch && distance <= lzoNear:
		return 2
	case length <= lzoFarMatch:
		return 3
	}
	return 4 + (length-lzoFarMatch-1)/255
}
