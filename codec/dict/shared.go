package dict

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// More people can read a dictionary than the values that it was made from. So it holds no string of 8 bytes
// that occurs in fewer than three samples, which may be a person's name or a token: algorithms choose
// content, and rare strings are cut out of it. What is left are runs:
//
//	content  …"tier":"gold","card":"4929 1234 5678 9012","currency":"EUR"…
//	runs     …"tier":"gold","card":"                    ","currency":"EUR"…
//
// A joint between two runs must not be such a string either. Algorithms are asked for more than needed; they
// put the best last, so the excess is removed from the front.

const (
	leastSamples = 3  // minimum number of samples for a string
	separator    = 30 // "record separator", which does not occur in text
)

// more returns the number of bytes to ask for, to have size left when rare strings are cut out.
func more(size int) int { return size + size/4 }

// tally counts, exactly, in how many samples each string of 8 bytes of some parts occurs.
type tally struct {
	shift int
	table []tallied // open addressing, at most half full
	maybe []uint64  // bits by a dmer's hash: they rule out most dmers that are in no part
}

type tallied struct {
	dmer  uint64
	last  uint32 // the last sample that contained it, counted from 1
	count uint32 // number of samples plus 1, so that 0 is an empty entry
}

func newTally(parts, samples [][]byte) *tally {
	n := 0
	for _, part := range parts {
		n += len(part)
	}
	log := max(bits.Len(uint(2*n)), 6)
	t := &tally{shift: 64 - log, table: make([]tallied, 1<<log), maybe: make([]uint64, 1<<log/8)}
	for _, part := range parts {
		for at := 0; at+dmerLen <= len(part); at++ {
			d := binary.LittleEndian.Uint64(part[at:])
			t.maybe[d*hashFactor>>(t.shift-3)/64] |= 1 << (d * hashFactor >> (t.shift - 3) % 64)
			*t.place(d) = tallied{dmer: d, count: 1}
		}
	}
	for i, sample := range samples {
		for at := 0; at+dmerLen <= len(sample); at++ {
			t.see(binary.LittleEndian.Uint64(sample[at:]), uint32(i+1))
		}
	}
	return t
}

const hashFactor = 0xcf1bbcdcb7a56463

func (t *tally) see(d uint64, sample uint32) {
	if bit := d * hashFactor >> (t.shift - 3); t.maybe[bit/64]&(1<<(bit%64)) == 0 {
		return
	}
	if p := t.place(d); p.count > 0 && p.last != sample {
		p.last = sample
		p.count++
	}
}

// place returns the entry of a dmer, or the empty one for it.
func (t *tally) place(d uint64) *tallied {
	for i := d * hashFactor >> t.shift; ; i = (i + 1) & uint64(len(t.table)-1) {
		if p := &t.table[i]; p.count == 0 || p.dmer == d {
			return p
		}
	}
}

// samples returns how many samples contain a dmer of the parts.
func (t *tally) samples(dmer []byte) int {
	return int(t.place(binary.LittleEndian.Uint64(dmer)).count) - 1
}

// rare reports whether a string in a part occurs in some samples, but too few.
func (t *tally) rare(part []byte) bool {
	for at := 0; at+dmerLen <= len(part); at++ {
		if n := t.samples(part[at:]); n > 0 && n < leastSamples {
			return true
		}
	}
	return false
}

// runs returns the runs of content that are left without rare strings.
func runs(content []byte, samples [][]byte) (all [][]byte) {
	t := newTally([][]byte{content}, samples)
	for at := 0; at+dmerLen <= len(content); at++ {
		start := at
		for at+dmerLen <= len(content) && t.samples(content[at:]) >= leastSamples {
			at++
		}
		if at > start {
			all = append(all, content[start:at+dmerLen-1])
		}
	}
	return all
}

// shared returns the parts of content that occur in leastSamples samples, at most the last size bytes.
func shared(content []byte, samples [][]byte, size int) []byte {
	all := runs(content, samples)
	first, total := len(all), 0
	for first > 0 && total < size {
		first--
		total += len(all[first])
	}
	joined := join(all[first:], samples)
	return joined[max(0, len(joined)-size):]
}

// join concatenates runs, with a separator between two whose joint would be a string that few samples have. A
// run for which that does not help is left out.
func join(runs, samples [][]byte) []byte {
	apart := make([]bool, len(runs)) // from the previous run
	for {
		out, around := lay(runs, apart)
		t, good := newTally(around, samples), true
		for i := len(runs) - 1; i >= 1; i-- {
			switch {
			case !t.rare(around[i]):
				continue
			case apart[i]:
				runs, apart = slices.Delete(runs, i, i+1), slices.Delete(apart, i, i+1)
			default:
				apart[i] = true
			}
			good = false
		}
		if good {
			return out
		}
	}
}

// lay returns the concatenated runs, and for each the bytes that hold all strings across the joint before it.
func lay(runs [][]byte, apart []bool) (out []byte, around [][]byte) {
	joints := make([]int, len(runs))
	for i, r := range runs {
		if joints[i] = len(out); apart[i] {
			out = append(out, separator)
		}
		out = append(out, r...)
	}
	for _, at := range joints {
		around = append(around, out[max(0, at-dmerLen+1):min(len(out), at+dmerLen)])
	}
	return out, around
}
