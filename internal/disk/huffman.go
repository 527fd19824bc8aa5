// Copyright (C) 1995-1998 Jean-loup Gailly (deflate) and Mark Adler.
//
// This software is provided 'as-is', without any express or implied warranty. In no event will
// the authors be held liable for any damages arising from the use of this software. Permission is
// granted to anyone to use this software for any purpose, including commercial applications, and
// to alter it and redistribute it freely, subject to the following restrictions: 1. The origin of
// this software must not be misrepresented; you must not claim that you wrote the original
// software. If you use this software in a product, an acknowledgment in the product documentation
// would be appreciated but is not required. 2. Altered source versions must be plainly marked as
// such, and must not be misrepresented as being the original software. 3. This notice may not be
// removed or altered from any source distribution.
//
// This file is an altered version of lib/zlib_deflate in Linux.

package disk

import "math/bits"

// A block of deflate: literals and matches by how often they occur, and from that how many
// bits it takes stored, with the fixed codes, and with codes of its own. Ties between codes
// are broken as in zlib, because the lengths of the codes are part of what is written.

const (
	flateLiterals   = 286 // bytes, the end, lengths
	flateDistances  = 30
	flateLengths    = 19 // codes for lengths of codes
	flateEnd        = 256
	flateFixedEnd   = 7 // bits of the end in the fixed code
	flateMaxBits    = 15
	flateLengthBits = 7
)

// Bits behind a code, and lengths of the fixed codes.
var (
	flateExtra, flateFixed, flateLengthCode = flateLiteralTables()
	flateExtraFar, flateFixedFar            = flateDistanceTables()
	flateExtraLength                        = [flateLengths]uint8{16: 2, 17: 3, 18: 7}
	flateLengthOrder                        = [flateLengths]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}
)

func flateLiteralTables() (extra, fixed [flateLiterals]uint8, codes [flateMaxMatch + 1]uint16) {
	length := flateMinMatch
	for code := range 28 {
		extra[flateEnd+1+code] = uint8(max(code/4-1, 0))
		for range 1 << extra[flateEnd+1+code] {
			codes[min(length, flateMaxMatch)] = uint16(flateEnd + 1 + code)
			length++
		}
	}
	codes[flateMaxMatch] = flateLiterals - 1 // rather than the last one of the code before
	for code := range fixed {
		switch {
		case code < 144, code >= 280:
			fixed[code] = 8
		case code < flateEnd:
			fixed[code] = 9
		default:
			fixed[code] = 7
		}
	}
	return extra, fixed, codes
}

func flateDistanceTables() (extra, fixed [flateDistances]uint8) {
	for code := range extra {
		extra[code] = uint8(max(code/2-1, 0))
		fixed[code] = 5
	}
	return extra, fixed
}

// flateFarCode is the code of a distance.
func flateFarCode(distance int) int {
	d := distance - 1
	if d < 4 {
		return d
	}
	n := bits.Len(uint(d)) - 1
	return 2*n + d>>(n-1)&1
}

type flateBlock struct {
	literals, distances, lengths flateTree
	symbols, matches             int
}

func (b *flateBlock) reset() {
	b.literals.reset()
	b.distances.reset()
	b.lengths.reset()
	b.literals.count[flateEnd] = 1
	b.symbols, b.matches = 0, 0
}

func (b *flateBlock) literal(c int) {
	b.literals.count[c]++
	b.symbols++
}

func (b *flateBlock) match(distance, length int) {
	b.literals.count[flateLengthCode[length]]++
	b.distances.count[flateFarCode(distance)]++
	b.symbols++
	b.matches++
}

// guess is an upper bound for the bytes of the block, which costs little.
func (b *flateBlock) guess() int {
	n := 8 * b.symbols
	for code, extra := range flateExtraFar {
		n += int(b.distances.count[code]) * (5 + int(extra))
	}
	return n / 8
}

// end returns the place of the next bit after the block, when it begins at one. stored is
// how many bytes are in it, or -1 if they are gone.
func (b *flateBlock) end(at, stored int) int {
	fixed := b.literals.fixed(flateFixed[:], flateExtra[:]) + b.distances.fixed(flateFixedFar[:], flateExtraFar[:])
	own := b.literals.build(flateLiterals, flateMaxBits, flateExtra[:])
	own += b.distances.build(flateDistances, flateMaxBits, flateExtraFar[:])
	own += b.header()
	b.reset()
	ownBytes, fixedBytes := (own+3+7)/8, (fixed+3+7)/8
	switch least := min(ownBytes, fixedBytes); {
	case stored >= 0 && stored+4 <= least:
		return roundUp(at+3, 8) + 32 + 8*stored
	case fixedBytes == least:
		return at + 3 + fixed
	}
	return at + 3 + own
}

// header is how many bits describe the codes.
func (b *flateBlock) header() int {
	b.lengths.scan(&b.literals)
	b.lengths.scan(&b.distances)
	n := b.lengths.build(flateLengths, flateLengthBits, flateExtraLength[:])
	last := flateLengths - 1
	for last >= 3 && b.lengths.length[flateLengthOrder[last]] == 0 {
		last--
	}
	return n + 3*(last+1) + 5 + 5 + 4
}

// flateTree is one Huffman code.
type flateTree struct {
	count  [2*flateLiterals + 1]uint16 // how often; from elements on: nodes
	length [2*flateLiterals + 1]uint8  // of codes
	parent [2*flateLiterals + 1]uint16
	depth  [2*flateLiterals + 1]uint8
	heap   [2*flateLiterals + 1]uint16
	size   int // of the heap
	last   int // the last code that occurs
}

func (t *flateTree) reset() { clear(t.count[:]) }

// build makes the code, and returns how many bits what was counted takes with it.
func (t *flateTree) build(elements, most int, extra []uint8) int {
	t.size, t.last = 0, -1
	for n := range elements {
		t.length[n] = 0
		if t.count[n] > 0 {
			t.push(n)
			t.last = n
		}
	}
	total := 0
	for t.size < 2 { // a code has at least two
		n := 0
		if t.last < 2 {
			t.last++
			n = t.last
		}
		t.count[n] = 1
		t.push(n)
		total--
	}
	for n := t.size / 2; n >= 1; n-- {
		t.down(n)
	}
	sorted := t.join(elements)
	return total + t.lengths(sorted, most, extra)
}

func (t *flateTree) push(n int) {
	t.size++
	t.heap[t.size], t.depth[n] = uint16(n), 0
}

// join makes nodes of the two rarest until one is left, and returns where in the heap's array
// all of them begin, from the root on.
func (t *flateTree) join(node int) int {
	sorted := len(t.heap)
	for {
		a := t.heap[1]
		t.heap[1] = t.heap[t.size]
		t.size--
		t.down(1)
		b := t.heap[1]
		t.heap[sorted-1], t.heap[sorted-2] = a, b
		sorted -= 2
		t.count[node] = t.count[a] + t.count[b]
		t.depth[node] = max(t.depth[a], t.depth[b]) + 1
		t.parent[a], t.parent[b] = uint16(node), uint16(node)
		t.heap[1] = uint16(node)
		node++
		t.down(1)
		if t.size < 2 {
			sorted--
			t.heap[sorted] = t.heap[1]
			return sorted
		}
	}
}

func (t *flateTree) less(a, b uint16) bool {
	return t.count[a] < t.count[b] || t.count[a] == t.count[b] && t.depth[a] <= t.depth[b]
}

func (t *flateTree) down(k int) {
	v := t.heap[k]
	for j := 2 * k; j <= t.size; j *= 2 {
		if j < t.size && t.less(t.heap[j+1], t.heap[j]) {
			j++
		}
		if t.less(v, t.heap[j]) {
			break
		}
		t.heap[k] = t.heap[j]
		k = j
	}
	t.heap[k] = v
}

// lengths gives each code its length, at most so many bits.
func (t *flateTree) lengths(sorted, most int, extra []uint8) int {
	var with [flateMaxBits + 1]int // codes with a length
	over := 0
	t.length[t.heap[sorted]] = 0
	for _, n := range t.heap[sorted+1:] {
		length := t.length[t.parent[n]] + 1
		if int(length) > most {
			length = uint8(most)
			over++
		}
		t.length[n] = length
		if int(n) <= t.last {
			with[length]++
		}
	}
	if over > 0 {
		t.shorten(&with, over, most)
	}
	total := 0
	for n := range t.last + 1 {
		if t.length[n] > 0 {
			total += int(t.count[n]) * int(t.length[n]+extra[n])
		}
	}
	return total
}

// shorten moves leaves up from below the most.
func (t *flateTree) shorten(with *[flateMaxBits + 1]int, over, most int) {
	for ; over > 0; over -= 2 {
		n := most - 1
		for with[n] == 0 {
			n--
		}
		with[n]--
		with[n+1] += 2
		with[most]--
	}
	h := len(t.heap)
	for length := most; length > 0; length-- {
		for n := with[length]; n > 0; {
			h--
			if m := t.heap[h]; int(m) <= t.last {
				t.length[m] = uint8(length)
				n--
			}
		}
	}
}

// fixed is how many bits what was counted takes with given lengths.
func (t *flateTree) fixed(length, extra []uint8) int {
	total := 0
	for n := range length {
		total += int(t.count[n]) * int(length[n]+extra[n])
	}
	return total
}

// scan counts the codes that the lengths of another tree's codes are written with: lengths
// themselves, 16 for some more of the last, 17 and 18 for zeros.
func (t *flateTree) scan(of *flateTree) {
	before, run := -1, 0
	for n := range of.last + 1 {
		length := int(of.length[n])
		next := -1
		if n < of.last {
			next = int(of.length[n+1])
		}
		run++
		least, most := 4, 7
		switch {
		case length == 0:
			least, most = 3, 138
		case length == before:
			least, most = 3, 6
		}
		if run < most && length == next {
			continue
		}
		switch {
		case run < least:
			t.count[length] += uint16(run)
		case length != 0:
			if length != before {
				t.count[length]++
			}
			t.count[16]++
		case run <= 10:
			t.count[17]++
		default:
			t.count[18]++
		}
		before, run = length, 0
	}
}
