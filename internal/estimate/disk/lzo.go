package disk

// LZO as in btrfs is estimated: with the search in match.go, and the sizes of the format LZO1X.

// lzoRules were fitted to what btrfs stores.
var lzoRules = matchRules{tableBits: 13, farthest: 48<<10 - 1, first: 5, patience: 5, unmatched: 20, literals: 15}

// LZO1X, in bytes.
const (
	lzoFirst = 238  // maximum number of literals in the short form, if there is nothing else
	lzoNear  = 2048 // a match no farther back and no longer than lzoShort takes 2 bytes
	lzoShort = 8
	lzoLong  = 33 // longest match whose length takes no byte of its own, farther back
	lzoEnd   = 3
)

// lzoSectors returns the length of a unit: its own length in 4 bytes, then each sector of 4 KiB after the sector's
// length in 4 bytes. These 4 bytes never cross the end of a sector of the output.
func lzoSectors(m *matcher, unit []byte) (n int, ok bool) {
	const word = 4
	n = word
	for at := 0; at < len(unit); at += btrfsBlock {
		sector := unit[at:min(at+btrfsBlock, len(unit))]
		n += word + lzo(m, sector)
		if left := roundUp(n, btrfsBlock) - n; left < word {
			n += left
		}
		if gaveUp(at+len(sector), n) {
			return 0, false
		}
	}
	return n, true
}

func lzo(m *matcher, sector []byte) int {
	n := lzoEnd
	m.run(sector, lzoRules, func(s sequence) bool {
		if s.literals == len(sector) && s.literals <= lzoFirst {
			n += 1 + s.literals
		} else {
			n += lzoLiterals(s.literals) + lzoMatch(s)
		}
		return true
	})
	return n
}

func lzoLiterals(n int) int {
	switch {
	case n <= 3: // coded in the previous match
		return n
	case n <= 18:
		return 1 + n
	}
	return 2 + (n-19)/255 + n
}

func lzoMatch(s sequence) int {
	switch {
	case s.length == 0:
		return 0
	case s.length <= lzoShort && s.distance <= lzoNear:
		return 2
	case s.length <= lzoLong:
		return 3
	}
	return 4 + (s.length-lzoLong-1)/255
}
