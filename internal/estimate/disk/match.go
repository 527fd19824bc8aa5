package disk

import (
	"encoding/binary"
	"math/bits"
)

// LZ4 and LZO find repetitions greedily: at each place they try one earlier place, the last one with the same
// hash of four bytes, and take the match there.

// matchRules holds the differences between LZ4 and LZO.
type matchRules struct {
	tableBits int  // log2 of the number of table entries
	farthest  int  // maximum distance of a match in bytes
	first     int  // the first place to try
	back      bool // matches are extended backwards
	patience  int  // after 1<<patience places without a match the next ones are two bytes apart, and so on
	unmatched int  // number of last bytes at which no match begins
	literals  int  // number of last bytes that no match of more than 4 bytes covers
}

const (
	leastMatch = 4 // bytes
	tableBits  = 13
	golden     = 2654435761 // 2^32 by the golden ratio: multiplicative hashing as in Knuth's book
)

// matcher records places by their hash. It is not for concurrent use.
type matcher struct {
	data  []byte
	rules matchRules
	table [1 << tableBits]int32
}

// sequence is a number of literal bytes and a copy of earlier ones. The last sequence has no copy.
type sequence struct{ literals, length, distance int }

// run splits data into sequences, until take returns false.
func (m *matcher) run(data []byte, r matchRules, take func(sequence) (more bool)) {
	m.data, m.rules = data, r
	clear(m.table[:1<<r.tableBits])
	begin, last := 0, len(data)-r.unmatched
	for at := r.first; at < last; at++ {
		from, earlier, ok := m.search(at, last)
		if !ok {
			break
		}
		for r.back && from > begin && earlier > 0 && data[from-1] == data[earlier-1] {
			from, earlier = from-1, earlier-1
		}
		for at = from; ok; earlier, ok = m.next(at, last) {
			length := max(leastMatch, alike(data[at:max(at, len(data)-r.literals)], data[earlier:]))
			if !take(sequence{at - begin, length, at - earlier}) {
				return
			}
			at += length
			begin = at
		}
	}
	take(sequence{literals: len(data) - begin})
}

// search returns the next place from at on that has a match.
func (m *matcher) search(at, last int) (from, earlier int, ok bool) {
	const first = 3 // number of tries counted in advance
	for tried := 1<<m.rules.patience + first; ; tried++ {
		next := at + tried>>m.rules.patience
		if next > last {
			return 0, 0, false
		}
		if earlier, ok = m.swap(at); ok {
			return at, earlier, true
		}
		at = next
	}
}

// next tries the place right after a match.
func (m *matcher) next(at, last int) (earlier int, ok bool) {
	if at > last {
		return 0, false
	}
	if m.rules.back {
		m.swap(at - 2)
	}
	return m.swap(at)
}

// swap records a place, and returns the one that it replaces, with whether the two match.
func (m *matcher) swap(at int) (earlier int, ok bool) {
	here := m.load(at)
	slot := &m.table[here*golden>>(32-m.rules.tableBits)]
	earlier, *slot = int(*slot), int32(at)
	return earlier, at-earlier <= m.rules.farthest && m.load(earlier) == here
}

func (m *matcher) load(at int) uint32 { return binary.LittleEndian.Uint32(m.data[at:]) }

// alike returns the length of the common prefix. b must be at least as long as a.
func alike(a, b []byte) int {
	n := 0
	for ; n+8 <= len(a); n += 8 {
		if differ := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); differ != 0 {
			return n + bits.TrailingZeros64(differ)/8
		}
	}
	for n < len(a) && a[n] == b[n] {
		n++
	}
	return n
}
