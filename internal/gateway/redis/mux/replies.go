package mux

import (
	"bytes"
	"errors"
	"math"
)

// errReply is wrapped by the error for bytes that are no reply of Redis (RESP 2 or 3).
var errReply = errors.New("mux: malformed reply")

// maxHeaderLine limits the length of the header line of a string or an aggregate, in bytes.
const maxHeaderLine = 32

// replies finds the ends of replies in the bytes of a connection. It keeps no bytes.
type replies struct {
	elements int64 // of the current reply that have not begun yet; 0 between replies
	bytes    int64 // of the current string that are still to come, with its CRLF
	inLine   bool  // within a line of any length: a simple string, an error, a number
	push     bool  // the current one is not a reply but a push message
}

// next consumes a part of b, from the beginning of b to at most the end of the current reply. It returns the length of
// the part, and whether the reply ends there. If the length is 0 b ends in the middle of a header line, and next must
// be called again with more bytes.
func (r *replies) next(b []byte) (n int, ended bool, err error) {
	for n < len(b) {
		rest := b[n:]
		switch {
		case r.inLine:
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				return len(b), false, nil
			}
			n += i + 1
			r.inLine = false
		case r.bytes > 0:
			k := min(r.bytes, int64(len(rest)))
			n += int(k)
			if r.bytes -= k; r.bytes > 0 {
				return n, false, nil
			}
		default:
			size, err := r.header(rest)
			if size == 0 || err != nil {
				return n, false, err
			}
			n += size
			if r.inLine || r.bytes > 0 {
				continue
			}
		}
		if r.elements == 0 {
			return n, true, nil
		}
	}
	return n, false, nil
}

// header parses what begins the next element at b, counts the elements in it, and returns its length; 0 if it is
// incomplete.
func (r *replies) header(b []byte) (size int, err error) {
	top := r.elements == 0
	if top {
		r.elements, r.push = 1, b[0] == '>'
	}
	switch b[0] {
	case '+', '-', ':', ',', '#', '_', '(':
		r.elements--
		r.inLine = true
		return 1, nil
	}
	end := bytes.IndexByte(b[:min(len(b), maxHeaderLine)], '\n')
	if end == 0 {
		return 0, errReply
	}
	if end < 0 {
		if len(b) >= maxHeaderLine {
			return 0, errReply
		}
		if top {
			r.elements = 0
		}
		return 0, nil
	}
	count, ok := parseLength(b[1:end])
	if !ok {
		return 0, errReply
	}
	r.elements--
	switch b[0] {
	case '$', '=', '!':
		if count >= 0 {
			r.bytes = count + 2
		}
	case '*', '~', '>':
		r.elements += max(count, 0)
	case '%':
		r.elements += 2 * max(count, 0)
	case '|': // attributes of the element that follows them
		r.elements += 2*max(count, 0) + 1
	default:
		return 0, errReply
	}
	if r.elements < 0 || r.elements > math.MaxInt32 {
		return 0, errReply
	}
	return end + 1, nil
}

// parseLength parses the length in a header line, up to its CR. -1 stands for null.
func parseLength(line []byte) (n int64, ok bool) {
	digits, ok := bytes.CutSuffix(line, []byte("\r"))
	if !ok || len(digits) == 0 {
		return 0, false
	}
	if string(digits) == "-1" {
		return -1, true
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n = 10*n + int64(c-'0'); n > math.MaxInt32 {
			return 0, false
		}
	}
	return n, true
}
