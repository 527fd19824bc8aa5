package dict

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// What a dictionary holds can be read by more people than the values that it was made of. So it
// holds no string of 8 bytes that occurs in fewer than three samples, which may be somebody's name or
// token: algorithms choose content, and what is rare is cut out of it. What is left are runs:
//
//	content  …"tier":"gold","card":"4929 1234 5678 9012","currency":"EUR"…
//	runs     …"tier":"gold","card":"                    ","currency":"EUR"…
//
// A joint between two runs must not be such a string either. Algorithms are asked for more than fits;
// they put the best last, so what is too much goes from the front.

const (
	leastSamples = 3  // that a string has to occur in
	separator    = 30 // "record separator", which text does not have
)

// more is what is asked for, in bytes, to have size of them when what is rare is cut out.
func more(size int) int { return size + size/4 }

// tally counts in how many samples each string of 8 bytes of some parts occurs, exactly.
type tally struct {
	shift int
	table []tallied // open addressing, at most half full
	maybe []uint64  // bits by a dmer's hash: most that are in no part are told by these
}

type tallied struct {
	dmer  uint64
	last  uint32 // the sample that it was seen in last, counted from 1
	count uint32 // samples; one more, so that 0 is an empty place
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

// place is where a dmer is, or belongs.
func (t *tally) place(d uint64) *tallied {
	for i := d * hashFactor >> t.shift; ; i = (i + 1) & uint64(len(t.table)-1) {
		if p := &t.table[i]; p.count == 0 || p.dmer == d {
			return p
		}
	}
}

// samples says in how many a dmer of the parts occurs.
func (t *tally) samples(dmer []byte) int {
	return int(t.place(binary.LittleEndian.Uint64(dmer)).count) - 1
}

// rare reports that a string in a part occurs in some samples, but few.
func (t *tally) rare(part []byte) bool {
	for at := 0; at+dmerLen <= len(part); at++ {
		if n := t.samples(part[at:]); n > 0 && n < leastSamples {
			return true
		}
	}
	return false
}

// runs cuts out of content what is rare.
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

// shared returns what of content occurs in leastSamples samples, at most the last size bytes.
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

// join lays runs side by side, or a separator in between where they would make a string that few samples
// have. A run that even so does is left out.
func join(runs, samples [][]byte) []byte {
	apart := make([]bool, len(runs)) // from the run before
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

// lay returns the runs in one, and for each what holds all strings over the joint in front of it.
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
