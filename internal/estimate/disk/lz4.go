package disk

// LZ4 as in ZFS since 2012. Its search is in match.go; this file computes sizes in LZ4's block format:
//
//	token           literals<<4 | length-4, each at most 15
//	[255 …] rest    of the literals, if they are 15 or more
//	literals
//	distance        2 bytes
//	[255 …] rest    of the length-4, if that is 15 or more
//
// The last sequence ends with its literals, at least 5 of them. The last match begins at least 12 bytes before the
// end.

// lz4Header is ZFS's header: the length of the block.
const lz4Header = 4

// lz4Small is the size below which a record's table has twice as many entries, of 16 bits each.
const lz4Small = 64<<10 + 11

func lz4Rules(size int) matchRules {
	r := matchRules{tableBits: 12, farthest: 64<<10 - 1, first: 1, back: true, patience: 6, unmatched: 12, literals: 5}
	if size < lz4Small {
		r.tableBits = 13
	}
	return r
}

// lz4Record returns the compressed length of a record, if it is at most most.
func lz4Record(m *matcher, data []byte, most int) (n int, ok bool) {
	n = lz4Header
	m.run(data, lz4Rules(len(data)), func(s sequence) bool {
		n += 1 + lz4More(s.literals) + s.literals
		if s.length > 0 {
			n += 2 + lz4More(s.length-leastMatch)
		}
		return n <= most
	})
	return n, n <= most
}

// lz4More returns the number of bytes for a number in addition to its token.
func lz4More(n int) int {
	if n < 15 {
		return 0
	}
	return 1 + (n-15)/255
}
