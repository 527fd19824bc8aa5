package dict

import (
	"encoding/binary"
	"math/bits"
)

// More people can read a dictionary than the values that it was made from. So it holds no string of 8 bytes
// that occurs in fewer than three samples, which may be a person's name or a token: algorithms choose
// content, and rare strings are cut out of it. What is left are runs:
//
//	content  …"tier":"gold","card":"4929 1234 5678 9012","customer":"c48213","currency":"EUR"…
//	runs     …"tier":"gold","card":"                    ","customer":"c48^13","currency":"EUR"…
//
// Where little is between two runs, or shared by them, bytes are masked instead, so that the distance stays as it is in
// values: a value's matches before and after a number then have the same offset, which costs next to nothing.
// Strings across a joint must not be rare either.
//
// Algorithms are asked for more than needed; they put the best last, so the excess is removed from the front.

const (
	leastSamples = 3  // minimum number of samples for a string
	separator    = 30 // "record separator", which does not occur in text
	longestMask  = 4  // bytes between two runs that are masked; more vary in number, and are left out
	mostShared   = 3  // bytes in both of two runs, of which one is masked; if there are more, both runs stay whole
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

// isRare reports whether a string of 8 bytes of a part occurs in some samples, but too few.
func (t *tally) isRare(dmer []byte) bool {
	n := t.samples(dmer)
	return n > 0 && n < leastSamples
}

// shared returns content with its rare strings masked, at most the last size bytes.
func shared(content []byte, samples [][]byte, size int) []byte {
	masked := mask(content, samples)
	return masked[max(0, len(masked)-size):]
}

// mask returns the runs of content without what is rare between them. It returns nil if that is everything.
func mask(content []byte, samples [][]byte) (out []byte) {
	t := newTally([][]byte{content}, samples)
	joints := []int{} // places in out with strings that content may not have
	until := 0        // the end of the last run in content
	for at := 0; at+dmerLen <= len(content); at++ {
		start := at
		for at+dmerLen <= len(content) && t.samples(content[at:]) >= leastSamples {
			at++
		}
		if at == start {
			continue
		}
		end := at + dmerLen - 1
		switch gap := start - until; {
		case len(out) == 0:
		case gap > longestMask || -gap > mostShared:
			joints = append(joints, len(out))
		case gap > 0:
			for range gap {
				joints, out = append(joints, len(out)), append(out, separator)
			}
		default: // they overlap: one byte in the middle of all rare strings
			middle := len(out) + gap/2 - 1
			joints, out[middle] = append(joints, middle), separator
			start = until
		}
		out = append(out, content[start:end]...)
		until = end
	}
	for len(joints) > 0 {
		var around [][]byte
		for _, at := range joints {
			around = append(around, out[max(0, at-dmerLen+1):min(len(out), at+dmerLen)])
		}
		t := newTally(around, samples)
		next := []int{}
		for _, joint := range joints {
			for at := max(0, joint-dmerLen+1); at <= joint && at+dmerLen <= len(out); at++ {
				if !t.isRare(out[at:]) {
					continue
				}
				i := joint
				for i > at && out[i] == separator {
					i--
				}
				for i < at+dmerLen-1 && out[i] == separator {
					i++
				}
				if out[i] != separator { // else nothing but separators is there
					out[i] = separator
					next = append(next, i)
				}
			}
		}
		joints = next
	}
	return out
}
