package codec

// A value is sampled in stretches spread over it. Within a stretch, four bytes that occurred before count as
// a match that a compressor would find; over the whole sample, the sum of the squared byte counts tells how
// well an entropy coder would do. Encrypted, compressed and random bytes gain from neither; base64 and
// hexadecimal digits have no matches but only 6 and 4 bits of information per byte.
const (
	minSampled     = 96   // shorter values are left to the codec
	stretches      = 8    // at most
	stretchLen     = 512  // bytes
	sampleTable    = 1024 // entries, a power of two
	matchesPerMill = 24   // minimum number of repeating positions per 1000
)

// Incompressible estimates whether compressing src would be useless: it returns true for random, encrypted
// and compressed bytes. It reads up to 4 KiB of src, in a few microseconds, and allocates nothing. In doubt
// it returns false.
func Incompressible(src []byte) bool { return incompressible(src, true) }

// Incompressible is like the function, for one codec: those that only replace repeated bytes (lz4, s2, minlz and
// snappy) also gain nothing from base64 and other random letters.
func (id ID) Incompressible(src []byte) bool {
	switch id {
	case LZ4, S2, MinLZ, Snappy:
		return incompressible(src, false)
	}
	return incompressible(src, true)
}

func incompressible(src []byte, byEntropy bool) bool {
	if len(src) < minSampled {
		return false
	}
	step := stretchLen
	if len(src) > stretches*stretchLen {
		step = (len(src) - stretchLen) / (stretches - 1)
	}
	enough := min(len(src), stretches*stretchLen) * matchesPerMill / 1000
	var s sample
	for at := 0; at < len(src); at += step {
		stretch := src[at:min(at+stretchLen, len(src))]
		s.bytes += uint32(len(stretch))
		var last uint32
		for i, c := range stretch {
			s.counts[c]++
			last = last<<8 | uint32(c)
			if i < 3 {
				continue
			}
			slot := &s.seen[last*2654435761>>(32-10)]
			if *slot == last {
				s.matches++
			}
			*slot = last
		}
		if s.matches > enough {
			return false
		}
	}
	return !byEntropy || s.flat()
}

type sample struct {
	counts  [256]uint32
	seen    [sampleTable]uint32 // four bytes, by their hash
	bytes   uint32
	matches int
}

// flat compares the sum of the squared counts with that of random bytes: n + n(n-1)/256 on average, with a deviation of
// n/11. Text and JSON give several times that, base64 four times. A quarter more than random means a gain of 4 % at
// best; the additional n/4 allows for chance.
func (s *sample) flat() bool {
	var squares uint32
	for _, c := range s.counts {
		squares += c * c
	}
	n := s.bytes
	return squares <= n+n*(n-1)/256*5/4+n/4
}
