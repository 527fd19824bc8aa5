package resp

import "bytes"

// IsWord reports whether an argument is the keyword word (lower case) in any letter case. The server compares
// C strings here, so bytes after a zero byte are ignored.
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

// CString returns b up to its first zero byte.
func CString(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

// Lower returns c as a lower-case letter if it is an ASCII letter.
func Lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
