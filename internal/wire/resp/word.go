package resp

import "bytes"

// IsWord reports whether an argument is the keyword word (lower case) in any letter case. The
// server compares C strings there, so whatever follows a zero byte counts for nothing.
func IsWord(arg []byte, word string) bool {
	arg = CString(arg)
	if len(arg) != len(word) {
		return false
	}
	for i, c := range arg {
		if Lower(c) != word[i] {
			return false
		}
	}
	return true
}

// CString cuts b at its first zero byte.
func CString(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

// Lower is c as a lower-case letter, if it is a letter of ASCII.
func Lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// ParseCount reads a number of keys or the like.
func ParseCount(arg []byte) (int, bool) {
	n, ok := ParseInt(arg)
	return int(n), ok && n >= 0 && n < 1<<31
}
