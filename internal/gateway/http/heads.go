package http

import (
	"bytes"
	"net"
	"net/http"
)

// headFill is how much the server reads at a time where headers may be; what it reads in larger pieces is of a body.
const headFill = 4 << 10

var lengthField, chunkedField = []byte("content-length:"), []byte("transfer-encoding:")

// heads counts how often a client's connection of HTTP/1 has named a Content-Length. The server takes it out of requests that
// also have chunks, so that nothing else tells of it. What bodies say of it is counted too, which does no harm. What follows a
// head with Transfer-Encoding is held back until the next Read, so that it is not counted for that head.
type heads struct {
	net.Conn
	ahead     []byte // was read already
	last      []byte // the end of what was read, in lower case, that may be the beginning of a field's name or the end of a head
	chunked   bool   // a Transfer-Encoding was named since the last head has ended
	named     int
	explained int // by headers of requests
}

// Read looks at what is read on the way.
func (c *heads) Read(p []byte) (int, error) {
	n, err := c.read(p)
	if len(p) > headFill {
		c.last = c.last[:0]
		return n, err
	}
	before := len(c.last)
	seen := append(c.last, bytes.ToLower(p[:n])...)
	c.chunked = c.chunked || bytes.Contains(seen, chunkedField)
	if end := headEnd(seen, before); c.chunked && end > 0 {
		c.chunked, c.ahead = false, append(bytes.Clone(p[end-before:n]), c.ahead...)
		seen, n = seen[:end], end-before
	}
	c.named += bytes.Count(seen[max(0, before-len(lengthField)+1):], lengthField)
	c.last = append(c.last[:0], seen[max(0, len(seen)-len(chunkedField)+1):]...)
	return n, err
}

// headEnd returns where the first blank line ends that does so behind the first bytes; 0 if there is none.
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

func (c *heads) read(p []byte) (int, error) {
	if len(c.ahead) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.ahead)
	c.ahead = c.ahead[n:]
	return n, nil
}

// CloseWrite is for connections that were taken over.
func (c *heads) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return net.ErrClosed
}

// unexplained reports whether a request with chunks may have had a length too.
func (c *heads) unexplained(r *http.Request) bool {
	if c == nil || r.ProtoMajor > 1 {
		return false
	}
	if len(r.Header["Content-Length"]) > 0 {
		c.explained++
	}
	return len(r.TransferEncoding) > 0 && c.named > c.explained
}
