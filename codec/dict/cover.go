package dict

import (
	"encoding/binary"
	"math"
	"slices"
)

// The selection of content follows COVER (Liao, Petri, Moffat and Wirth, "Effective construction of relative
// Lempel-Ziv dictionaries", 2016), with the hashed counts of zstd's fast variant:
//
//	count    in how many samples each string of 8 bytes (dmer) occurs
//	select   from each part of the samples ("epoch") the segment of k bytes
//	         whose dmers, each counted once, occur in most samples;
//	         dmers that it covers then count nothing
//	lay out  best segments last, where offsets to them are shortest
//
// The result is deterministic: the same samples give the same dictionary.

const (
	dmerLen   = 8
	countBits = 20 // hashed counters: 2 MiB and 4 MiB
)

// cover selects content from samples.
type cover struct {
	samples [][]byte
	counts  []uint16 // by a dmer's hash, over all samples, saturating
	seen    []uint32 // by a dmer's hash: the sample that it was last seen in

	left     []uint16 // counts of the dmers not yet covered (covered: 0), for the current choice
	inWindow []uint16 // by a dmer's hash: occurrences in the window
}

type segment struct {
	sample, start, end int
	score              int
}

// newCover counts the dmers of samples. Samples shorter than a dmer contribute nothing.
func newCover(samples [][]byte) *cover {
	c := &cover{
		samples: samples, counts: make([]uint16, 1<<countBits), seen: make([]uint32, 1<<countBits),
		left: make([]uint16, 1<<countBits), inWindow: make([]uint16, 1<<countBits),
	}
	for i, sample := range samples {
		for at := 0; at+dmerLen <= len(sample); at++ {
			h := dmer(sample[at:])
			if c.seen[h] != uint32(i+1) {
				c.seen[h] = uint32(i + 1)
				c.counts[h] = max(c.counts[h], c.counts[h]+1)
			}
		}
	}
	return c
}

func dmer(b []byte) uint32 {
	return uint32(binary.LittleEndian.Uint64(b) * 0xcf1bbcdcb7a56463 >> (64 - countBits))
}

// content returns size bytes, or as many as there are, of segments of up to k bytes.
func (c *cover) content(size, k int) []byte {
	return c.choose(size, k, func(s segment) int { return s.end - s.start })
}

// shared does the same, but removes rare strings from the segments.
func (c *cover) shared(size, k int) []byte {
	return shared(c.choose(size+size/8, k, c.kept), c.samples, size)
}

// choose lays out segments until their bytes, as counted by bytes, reach size. It works on a copy of the
// counts.
func (c *cover) choose(size, k int, bytes func(segment) int) []byte {
	copy(c.left, c.counts)
	most := slices.Repeat([]int{math.MaxInt}, len(c.samples))
	var chosen []segment
	for total, found := 0, 1; total < size && found > 0; {
		found = 0
		for _, epoch := range c.epochs(size, k) {
			if total >= size {
				break
			}
			best := c.best(epoch, k, c.left, c.inWindow, most)
			if best.score == 0 {
				continue
			}
			c.useUp(best, c.left)
			best.end = min(best.end, best.start+size-total)
			chosen = append(chosen, best)
			total += bytes(best)
			found++
		}
	}
	return c.layOut(chosen, size)
}

// epochs divides the samples so that each part yields one segment per round.
func (c *cover) epochs(size, k int) [][2]int {
	n := min(max(size/k/4, 1), len(c.samples))
	epochs := make([][2]int, n)
	for i := range epochs {
		epochs[i] = [2]int{i * len(c.samples) / n, (i + 1) * len(c.samples) / n}
	}
	return epochs
}

// best returns the first of the segments of k bytes with the highest score in the samples of an epoch. most
// holds the score of each sample's best segment when it was last computed. Since counts only fall, it is an
// upper bound: samples that can't win are skipped.
func (c *cover) best(epoch [2]int, k int, counts, inWindow []uint16, most []int) (best segment) {
	look := func(i int) {
		s := c.bestOf(i, k, counts, inWindow)
		if most[i] = s.score; s.score > best.score || s.score == best.score && s.score > 0 && i < best.sample {
			best = s
		}
	}
	likeliest := epoch[0]
	for i := epoch[0]; i < epoch[1]; i++ {
		if most[i] > most[likeliest] {
			likeliest = i
		}
	}
	look(likeliest)
	for i := epoch[0]; i < epoch[1]; i++ {
		if i != likeliest && (most[i] > best.score || most[i] == best.score && i < best.sample) {
			look(i)
		}
	}
	return c.trim(best, counts)
}

// bestOf slides a window of k bytes over a sample. inWindow holds how often each dmer is in the window, and
// is all zero between calls.
func (c *cover) bestOf(i, k int, counts, inWindow []uint16) (best segment) {
	sample := c.samples[i]
	width := min(k, len(sample)) - dmerLen + 1 // of the window, in dmers
	if width <= 0 {
		return segment{}
	}
	last := len(sample) - dmerLen
	score := 0
	for at := 0; at <= last; at++ {
		score += enter(dmer(sample[at:]), counts, inWindow)
		if at >= width {
			score -= leave(dmer(sample[at-width:]), counts, inWindow)
		}
		if at >= width-1 && score > best.score {
			best = segment{i, at - width + 1, at + dmerLen, score}
		}
	}
	for at := max(last-width+1, 0); at <= last; at++ {
		leave(dmer(sample[at:]), counts, inWindow)
	}
	return best
}

func enter(h uint32, counts, inWindow []uint16) int {
	value := worth(counts[h])
	if value == 0 {
		return 0 // without accessing inWindow, which is rarely in the CPU's cache
	}
	if inWindow[h]++; inWindow[h] == 1 {
		return value
	}
	return 0
}

func leave(h uint32, counts, inWindow []uint16) int {
	value := worth(counts[h])
	if value == 0 {
		return 0
	}
	if inWindow[h]--; inWindow[h] == 0 {
		return value
	}
	return 0
}

// worth returns the score of a dmer: the number of samples that contain it, or 0 if that is below leastSamples, since
// rare strings are cut out, see shared.go.
func worth(count uint16) int {
	if count < leastSamples {
		return 0
	}
	return int(count)
}

// trim removes worthless ends of a segment.
func (c *cover) trim(s segment, counts []uint16) segment {
	if s.score == 0 {
		return s
	}
	sample := c.samples[s.sample]
	for s.start+dmerLen < s.end && worth(counts[dmer(sample[s.start:])]) == 0 {
		s.start++
	}
	for s.start+dmerLen < s.end && worth(counts[dmer(sample[s.end-dmerLen:])]) == 0 {
		s.end--
	}
	return s
}

func (c *cover) useUp(s segment, counts []uint16) {
	sample := c.samples[s.sample]
	for at := s.start; at+dmerLen <= s.end; at++ {
		counts[dmer(sample[at:])] = 0
	}
}

// kept returns how many bytes of a segment are in strings that enough samples have, as far as hashes tell.
func (c *cover) kept(s segment) (n int) {
	sample, until := c.samples[s.sample], s.start
	for at := s.start; at+dmerLen <= s.end; at++ {
		if c.counts[dmer(sample[at:])] >= leastSamples {
			n += at + dmerLen - max(at, until)
			until = at + dmerLen
		}
	}
	return n
}

func (c *cover) layOut(chosen []segment, size int) []byte {
	slices.SortStableFunc(chosen, func(a, b segment) int { return a.score - b.score })
	content := make([]byte, 0, size)
	for _, s := range chosen {
		content = append(content, c.samples[s.sample][s.start:s.end]...)
	}
	return content
}
