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

import (
	"encoding/binary"
	"math/bits"
)

// The zlib of the kernel, 1.1.3 with changes, as far as lengths go: btrfs has it, and ZFS on
// Linux. Today's zlib differs by where it ends blocks; other deflates by several percent, as
// they search in other ways. After lib/zlib_deflate/deflate.c and deftree.c in Linux, by
// Jean-loup Gailly (zlib licence); this is an altered version, which writes nothing.
//
//	strings of three bytes → head of a chain by hash → older places by prev
//	level 1 to 3: the first match that is found; 4 to 9: unless the next byte has a longer one
//
// What is fed together ends there: no match goes beyond it (btrfs: one page).
const (
	flateWindow   = 1 << 15
	flateMinMatch = 3
	flateMaxMatch = 258
	flateAhead    = flateMaxMatch + flateMinMatch + 1
	flateFar      = flateWindow - flateAhead // the longest distance
	flateTooFar   = 4096                     // for matches of three bytes, when lazy
	flateSymbols  = 1<<14 - 1                // of a block
	flateHashBits = 15
)

// flateLevel is how hard to search.
type flateLevel struct{ good, lazy, nice, chain int }

var flateLevels = [10]flateLevel{
	1: {4, 4, 8, 4}, 2: {4, 5, 16, 8}, 3: {4, 6, 32, 32},
	4: {4, 4, 16, 16}, 5: {8, 16, 32, 32}, 6: {8, 16, 128, 128},
	7: {8, 32, 128, 256}, 8: {32, 128, 258, 1024}, 9: {32, 258, 258, 4096},
}

// flateLazyLevel is from where on the next byte is tried before a match is taken.
const flateLazyLevel = 4

// deflater computes what deflate makes of one stream. It is not for concurrent use.
type deflater struct {
	head [1 << flateHashBits]int32 // the last place of a string; 0: none
	prev [flateWindow]int32        // the one before

	level int
	flateLevel
	data  []byte
	at    int // here we are
	end   int // of what was fed
	base  int // of the window, which moves by its size
	begin int // of the block

	matchLen, matchAt, prevLen, prevAt int
	pending                            bool // the byte before is neither written nor in a match

	block flateBlock
	bits  int // written
}

// start begins a stream over data, of which nothing is fed yet.
func (d *deflater) start(data []byte, level int) {
	clear(d.head[:])
	d.level, d.flateLevel, d.data = level, flateLevels[level], data
	d.at, d.end, d.base, d.begin, d.bits = 0, 0, 0, 0, 0
	d.matchLen, d.prevLen, d.pending = flateMinMatch-1, flateMinMatch-1, false
	d.block.reset()
}

// feed takes the data up to a place, and ends a block there.
func (d *deflater) feed(end int) {
	d.end = end
	if d.level < flateLazyLevel {
		d.fast()
	} else {
		d.slow()
	}
	d.endBlock()
}

func (d *deflater) endBlock() {
	stored := -1
	if d.begin >= d.base {
		stored = d.at - d.begin
	}
	d.bits = d.block.end(d.bits, stored)
	d.begin = d.at
}

// tally counts a match, or where there is no distance a literal.
func (d *deflater) tally(distance, length int) {
	if distance == 0 {
		d.block.literal(length)
	} else {
		d.block.match(distance, length)
	}
}

// full says that the block ends here: it has many symbols, or it is guessed to be worth it.
func (d *deflater) full() bool {
	b := &d.block
	if b.symbols&0xfff == 0 && d.level > 2 && b.matches < b.symbols/2 && b.guess() < (d.at-d.begin)/2 {
		return true
	}
	return b.symbols == flateSymbols
}

// slide moves the window where too little is ahead in it.
func (d *deflater) slide() {
	if d.at-d.base >= flateWindow+flateFar {
		d.base += flateWindow
	}
}

// insert puts the string at a place into the table, and returns the last place before.
func (d *deflater) insert(at int) int {
	b := d.data[at:]
	h := (uint(b[0])<<10 ^ uint(b[1])<<5 ^ uint(b[2])) & (1<<flateHashBits - 1)
	before := d.head[h]
	d.prev[at%flateWindow], d.head[h] = before, int32(at)
	return int(before)
}

// found says that a place is one to look for matches at.
func (d *deflater) found(place int) bool { return place > d.base && d.at-place <= flateFar }

func (d *deflater) fast() {
	for d.at < d.end {
		if d.end-d.at < flateAhead {
			d.slide()
		}
		length := 0
		if d.end-d.at >= flateMinMatch {
			if place := d.insert(d.at); d.found(place) {
				length = d.longest(place, flateMinMatch-1)
			}
		}
		if length < flateMinMatch {
			d.tally(0, int(d.data[d.at]))
			full := d.full()
			d.at++
			if full {
				d.endBlock()
			}
			continue
		}
		d.tally(d.at-d.matchAt, length)
		full := d.full()
		after := d.at + length
		if length <= d.lazy && d.end-after >= flateMinMatch {
			for d.at++; d.at < after; d.at++ {
				d.insert(d.at)
			}
		}
		d.at = after
		if full {
			d.endBlock()
		}
	}
}

func (d *deflater) slow() {
	for d.at < d.end {
		if d.end-d.at < flateAhead {
			d.slide()
		}
		place := 0
		if d.end-d.at >= flateMinMatch {
			place = d.insert(d.at)
		}
		d.prevLen, d.prevAt, d.matchLen = d.matchLen, d.matchAt, flateMinMatch-1
		if place > 0 && d.prevLen < d.lazy && d.found(place) {
			d.matchLen = d.longest(place, d.prevLen)
			if d.matchLen == flateMinMatch && d.at-d.matchAt > flateTooFar {
				d.matchLen = flateMinMatch - 1
			}
		}
		switch {
		case d.prevLen >= flateMinMatch && d.matchLen <= d.prevLen:
			d.takePrevious()
		case d.pending:
			d.tally(0, int(d.data[d.at-1]))
			if d.full() {
				d.endBlock()
			}
			d.at++
		default:
			d.pending = true
			d.at++
		}
	}
	if d.pending {
		d.tally(0, int(d.data[d.at-1]))
		d.pending = false
	}
}

// takePrevious takes the match of the byte before.
func (d *deflater) takePrevious() {
	d.tally(d.at-1-d.prevAt, d.prevLen)
	full := d.full()
	last := d.end - flateMinMatch
	after := d.at - 1 + d.prevLen
	for d.at++; d.at < after; d.at++ {
		if d.at <= last {
			d.insert(d.at)
		}
	}
	d.pending, d.matchLen = false, flateMinMatch-1
	if full {
		d.endBlock()
	}
}

// longest looks along the chain for a match that is longer than best, and leaves its place
// in matchAt.
func (d *deflater) longest(place, best int) int {
	chain := d.chain
	if best >= d.good {
		chain /= 4
	}
	ahead := d.end - d.at
	nice, most := min(d.nice, ahead), min(flateMaxMatch, ahead)
	limit := max(d.base, d.at-flateFar)
	here := d.data[d.at : d.at+most]
	for {
		if best >= most {
			return min(best, ahead)
		}
		there := d.data[place : place+most]
		if there[best] == here[best] && there[best-1] == here[best-1] && there[0] == here[0] && there[1] == here[1] {
			if n := flateAlike(here, there); n > best {
				d.matchAt, best = place, n
				if n >= nice {
					return best
				}
			}
		}
		if place = int(d.prev[place%flateWindow]); place <= limit {
			return best
		}
		if chain--; chain == 0 {
			return best
		}
	}
}

// flateAlike is for how many bytes two strings of one length are alike.
func flateAlike(a, b []byte) int {
	n := 0
	for ; n+8 <= len(a); n += 8 {
		if d := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); d != 0 {
			return n + bits.TrailingZeros64(d)/8
		}
	}
	for n < len(a) && a[n] == b[n] {
		n++
	}
	return n
}
