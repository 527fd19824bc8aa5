package dict

import (
	"encoding/binary"
	"math/bits"
)

// The entropy tables of a dictionary state the frequency of each code in values that are compressed with it.
// To count the codes, samples are parsed as a fast zstd encoder would, without writing anything:
//
//	literals            bytes that no match covers
//	sequence            number of literals, length of the match after them, and its distance
//
// Strings of 8 bytes are looked up first, then short ones, each at its last occurrence: in the sample, or
// else in the content.

const (
	longLen   = 8
	shortLen  = 5
	tableLog  = 16 // log2 of the entries for the content, by hash
	sampleLog = 13 // log2 of the entries for a sample
	skipAfter = 8  // log2 of the number of literals after which the search skips one byte more per step
)

// codeCounts holds how often each code occurs.
type codeCounts struct {
	literals       [256]int
	offsets        [32]int
	matches        [53]int
	literalLengths [36]int
}

// parser counts codes, sample by sample.
type parser struct {
	counts          codeCounts
	content         int // bytes
	buf             []byte
	long, short     places
	repeat, repeat2 int // the last offsets
}

// places holds where strings occurred last, counted from 1: in the content, which is permanent, and in the
// sample.
type places struct {
	content [1 << tableLog]int32
	sample  [1 << sampleLog]int32
}

func (p *places) at(h uint64) int {
	if at := p.sample[h>>(64-sampleLog)]; at > 0 {
		return int(at) - 1
	}
	return int(p.content[h>>(64-tableLog)]) - 1
}

func longHash(b []byte) uint64 { return binary.LittleEndian.Uint64(b) * hashFactor }

func shortHash(b []byte) uint64 {
	return binary.LittleEndian.Uint64(b) << (64 - 8*shortLen) * hashFactor
}

// countCodes parses samples that follow content.
func countCodes(content []byte, samples [][]byte) *codeCounts {
	p := &parser{content: len(content), buf: append([]byte(nil), content...)}
	for at := 0; at+longLen <= len(content); at++ {
		p.long.content[longHash(content[at:])>>(64-tableLog)] = int32(at + 1)
		p.short.content[shortHash(content[at:])>>(64-tableLog)] = int32(at + 1)
	}
	for _, s := range samples {
		p.buf = append(p.buf[:p.content], s...)
		p.long.sample, p.short.sample = [1 << sampleLog]int32{}, [1 << sampleLog]int32{}
		p.parse()
	}
	return &p.counts
}

// parse counts the codes of one sample, which follows the content in buf.
func (p *parser) parse() {
	p.repeat, p.repeat2 = firstRepeats[0], firstRepeats[1]
	anchor := p.content
	for at := anchor; at+longLen < len(p.buf); {
		from, offset := p.find(at)
		if offset == 0 {
			at += 1 + (at-anchor)>>skipAfter
			continue
		}
		for from > anchor && from > offset && p.buf[from-1] == p.buf[from-offset-1] {
			from--
		}
		end := from + p.common(from, offset)
		p.sequence(anchor, from, end, offset)
		anchor, at = end, end
		p.note(end - 2)
		for at+longLen < len(p.buf) && p.common(at, p.repeat2) >= 4 { // without literals, offset value 1 means repeat2
			p.repeat, p.repeat2 = p.repeat2, p.repeat
			end := at + p.common(at, p.repeat)
			p.code(at, at, end, 1)
			anchor, at = end, end
		}
	}
	for _, b := range p.buf[anchor:] {
		p.counts.literals[b]++
	}
}

// find returns a match at a position, or at the next byte. An offset of 0 means none.
func (p *parser) find(at int) (from, offset int) {
	defer p.note(at)
	if p.common(at+1, p.repeat) >= 4 {
		return at + 1, p.repeat
	}
	if offset := p.match(at, p.long.at(longHash(p.buf[at:])), longLen); offset > 0 {
		return at, offset
	}
	if offset := p.match(at, p.short.at(shortHash(p.buf[at:])), shortLen); offset > 0 {
		if at+1+longLen < len(p.buf) {
			if longer := p.match(at+1, p.long.at(longHash(p.buf[at+1:])), longLen); longer > 0 {
				return at + 1, longer
			}
		}
		return at, offset
	}
	return at, 0
}

func (p *parser) match(at, place, least int) (offset int) {
	if place < 0 || place >= at || p.common(at, at-place) < least {
		return 0
	}
	return at - place
}

// note records the strings at a position of the sample.
func (p *parser) note(at int) {
	if at < p.content || at+longLen > len(p.buf) {
		return
	}
	p.long.sample[longHash(p.buf[at:])>>(64-sampleLog)] = int32(at + 1)
	p.short.sample[shortHash(p.buf[at:])>>(64-sampleLog)] = int32(at + 1)
}

// common returns the length of the match at a position with the given offset.
func (p *parser) common(at, offset int) (n int) {
	if offset > at {
		return 0
	}
	for at+n < len(p.buf) && p.buf[at+n] == p.buf[at-offset+n] {
		n++
	}
	return n
}

// sequence counts a match with the literals before it.
func (p *parser) sequence(anchor, from, end, offset int) {
	value := offset + 3
	if offset == p.repeat && from > anchor {
		value = 1
	} else {
		p.repeat, p.repeat2 = offset, p.repeat
	}
	p.code(anchor, from, end, value)
}

func (p *parser) code(anchor, from, end, offsetValue int) {
	for _, b := range p.buf[anchor:from] {
		p.counts.literals[b]++
	}
	p.counts.offsets[bits.Len(uint(offsetValue))-1]++
	p.counts.literalLengths[literalLengthCode(from-anchor)]++
	p.counts.matches[matchCode(end-from)]++
}

// Codes of lengths, as in RFC 8878, section 3.1.1.3.2.1.1: single values, then ranges.
var (
	literalLengthBases = []int{16, 18, 20, 22, 24, 28, 32, 40, 48, 64, 128, 256, 512, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10}
	matchBases         = []int{35, 37, 39, 41, 43, 47, 51, 59, 67, 83, 99, 131, 259, 515, 1027, 2051, 4099, 8195, 16387, 32771, 65539}
)

func literalLengthCode(n int) int { return lengthCode(n, 0, literalLengthBases) }

func matchCode(n int) int { return lengthCode(n, 3, matchBases) }

func lengthCode(n, least int, bases []int) int {
	if n < bases[0] {
		return n - least
	}
	code := bases[0] - least
	for _, base := range bases[1:] {
		if n < base {
			break
		}
		code++
	}
	return code
}
