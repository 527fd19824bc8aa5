package policy

import "bytes"

// maxNumberLen is the length of the longest int64 in decimal, with its sign.
const maxNumberLen = 20

var hyperLogLog = []byte("HYLL")

// NeverSeal reports whether a value has to stay as it is whatever the policy
// says, because the server computes on it: a canonical int64 (INCR and its
// kin, and Redis keeps it in 8 bytes anyway) or a HyperLogLog.
func NeverSeal(value []byte) bool {
	return len(value) <= maxNumberLen && isInt64(value) || bytes.HasPrefix(value, hyperLogLog)
}

// isInt64 accepts exactly what Redis's string2ll does: an int64 in the only
// form in which it prints, so no plus, no spaces, no leading zeros, no "-0".
func isInt64(s []byte) bool {
	if len(s) == 0 || len(s) > maxNumberLen {
		return false
	}
	if len(s) == 1 && s[0] == '0' {
		return true
	}
	limit := uint64(1<<63 - 1)
	if s[0] == '-' {
		limit++
		s = s[1:]
	}
	if len(s) == 0 || s[0] == '0' {
		return false
	}
	n := uint64(0)
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
		d := uint64(c - '0')
		if n > (limit-d)/10 {
			return false
		}
		n = n*10 + d
	}
	return true
}
