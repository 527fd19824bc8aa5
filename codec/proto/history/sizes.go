package history

import "math/bits"

// A number is coded as its number of bits, the two bits after the highest one with probabilities, and the
// others as plain bits.

const (
	contexts = 4
	topBits  = 2
)

// sizes is the statistics of numbers of one kind.
type sizes struct {
	zero [contexts]prob
	len  [contexts][64]prob
	top  [64][1 << topBits]prob
}

func newSizes() *sizes {
	s := &sizes{}
	even(s.zero[:])
	for i := range s.len {
		even(s.len[i][:])
	}
	for i := range s.top {
		even(s.top[i][:])
	}
	return s
}

// sizesOf allocates the statistics when they are first needed.
func sizesOf(s **sizes) *sizes {
	if *s == nil {
		*s = newSizes()
	}
	return *s
}

// number codes a number in a context.
func (c *coder) number(s *sizes, context int, u uint64) uint64 {
	n := uint32(bits.Len64(u))
	if c.bit(&s.zero[context], min(n, 1)) == 0 {
		return 0
	}
	n = c.tree(s.len[context][:], n-1, 6) - 63
	rest := uint(n - 1)
	first := min(rest, topBits)
	rest -= first
	v := uint64(c.tree(s.top[n-1][:], uint32(u>>rest)&(1<<first-1), first))
	for rest > 0 {
		k := min(rest, 16)
		rest -= k
		v = v<<k | uint64(c.plain(uint32(u>>rest)&(1<<k-1), k))
	}
	return v
}

// fieldCount codes the number of fields of a run in a record. s holds the last number.
func (c *coder) fieldCount(counts *sizes, s *seen, n int) uint64 {
	if !c.flag(&counts.zero[2], uint64(n) == s.prev) {
		s.prev = c.number(counts, 3, uint64(n))
	}
	return s.prev
}

// sizeContext returns the context for the number after one of n bits.
func sizeContext(n int) uint8 {
	switch {
	case n == 0:
		return 0
	case n <= 4:
		return 1
	case n <= 12:
		return 2
	}
	return 3
}
