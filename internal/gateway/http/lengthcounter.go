package http

import (
	"bytes"
	"net"
	"net/http"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// maxHeadRead is the most bytes that the server reads at a time where headers may be. Larger reads are of
// bodies.
const maxHeadRead = 4 << 10

var lengthField, chunkedField, blankLine = []byte("content-length:"), []byte("transfer-encoding:"), []byte("\r\n\r\n")

// lengthCounter counts how often a client has named a Content-Length on an HTTP/1 connection. net/http's server
// removes the field from requests with chunks, so there is no other trace of it. Occurrences in bodies are
// counted too, which does no harm. Bytes behind a head with Transfer-Encoding are held back until the next
// Read, so that they are not counted for that head.
type lengthCounter struct {
	net.Conn
	ahead    []byte // bytes to be returned by the next Read
	last     []byte // end of the bytes read: part of a field's name or of the end of a head
	chunked  bool   // a Transfer-Encoding was named since the end of the last head
	found    int
	expected int // Content-Length fields found in the headers of requests
	behind   int // bytes behind the first blank line of the last read
}

// Read reads from the connection, and examines the bytes.
func (c *lengthCounter) Read(p []byte) (int, error) {
	n, err := c.read(p)
	if len(p) > maxHeadRead {
		c.last, c.behind = c.last[:0], 0
		return n, err
	}
	_, rest, _ := bytes.Cut(p[:n], blankLine)
	c.behind = len(rest)
	before := len(c.last)
	buf := append(append(memory.GetBuffer(before+n), c.last...), p[:n]...)
	defer memory.PutBuffer(buf)
	seen := buf
	c.chunked = c.chunked || countField(seen, chunkedField) > 0
	if c.chunked {
		if end := headEnd(seen, before); end > 0 {
			c.chunked, c.ahead = false, append(bytes.Clone(p[end-before:n]), c.ahead...)
			seen, n = seen[:end], end-before
		}
	}
	c.found += countField(seen[max(0, before-len(lengthField)+1):], lengthField)
	c.last = append(c.last[:0], seen[max(0, len(seen)-len(chunkedField)+1):]...)
	return n, err
}

// countField counts how often a field is named in b, in upper or lower case. name ends with the colon.
func countField(b, name []byte) (n int) {
	for at := 0; ; at++ {
		next := bytes.IndexByte(b[at:], ':')
		if next < 0 {
			return n
		}
		at += next
		if begin := at + 1 - len(name); begin >= 0 && bytes.EqualFold(b[begin:at+1], name) {
			n++
		}
	}
}

// headEnd returns the end of the first blank line that ends behind b[:first], or 0 if there is none.
func headEnd(b []byte, first int) int {
	for i := max(0, first-2); i+1 < len(b); i++ {
		if b[i] != '\n' {
			continue
		}
		if rest := bytes.TrimPrefix(b[i+1:], []byte("\r")); len(rest) > 0 && rest[0] == '\n' && len(b)-len(rest) >= first {
			return len(b) - len(rest) + 1
		}
	}
	return 0
}

func (c *lengthCounter) read(p []byte) (int, error) {
	if len(c.ahead) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.ahead)
	c.ahead = c.ahead[n:]
	return n, nil
}

// CloseWrite closes the connection for writing. It is used by code that has taken over the connection.
func (c *lengthCounter) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return net.ErrClosed
}

// hasHiddenLength reports whether a request with chunks may have had a length too.
func (c *lengthCounter) hasHiddenLength(r *http.Request) bool {
	if c == nil || r.ProtoMajor > 1 {
		return false
	}
	if len(r.Header["Content-Length"]) > 0 {
		c.expected++
	}
	return len(r.TransferEncoding) > 0 && c.found > c.expected
}

// hasArrived reports whether a request's body came with the end of its header, so that reading it does not block. It
// must be called before the body is read. A client can mislead it, with a blank line in the end of an earlier body, and
// delays only its own request by that.
func (c *lengthCounter) hasArrived(r *http.Request) bool {
	return c != nil && r.ProtoMajor == 1 && r.ContentLength > 0 && r.ContentLength <= int64(c.behind) && len(r.Header["Expect"]) == 0
}
