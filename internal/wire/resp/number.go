package resp

import "math"

// ParseInt parses a decimal integer exactly as Redis's string2ll does: no plus sign, no leading zeros, no
// spaces, the range of int64. The RESP headers of both directions use it.
func ParseInt(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	if len(b) == 1 && b[0] == '0' {
		return 0, true
	}
	neg := b[0] == '-'
	if neg {
		b = b[1:]
	}
	if len(b) == 0 || b[0] < '1' || b[0] > '9' {
		return 0, false
	}
	u, ok := parseDigits(b)
	if !ok {
		return 0, false
	}
	return signed(u, neg)
}

// ParseCount parses a count, such as a number of keys, from 0 to 1<<31 - 1.
func ParseCount(arg []byte) (int, bool) {
	n, ok := ParseInt(arg)
	return int(n), ok && n >= 0 && n < 1<<31
}

func parseDigits(b []byte) (uint64, bool) {
	var u uint64
	for _, c := range b {
		if c < '0' || c > '9' || u > math.MaxUint64/10 {
			return 0, false
		}
		u *= 10
		d := uint64(c - '0')
		if u > math.MaxUint64-d {
			return 0, false
		}
		u += d
	}
	return u, true
}

func signed(u uint64, neg bool) (int64, bool) {
	if neg {
		if u > 1<<63 {
			return 0, false
		}
		return int64(-u), true
	}
	if u > math.MaxInt64 {
		return 0, false
	}
	return int64(u), true
}
