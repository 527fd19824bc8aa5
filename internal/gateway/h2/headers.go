package h2

import (
	"bytes"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// block is a header block as it is decoded. There is one a connection, which belongs to the reader.
type block struct {
	dec   *hpack.Decoder
	limit int // bytes of the list, as HTTP/2 counts them (RFC 9113, section 6.5.2)

	fields  []hpack.HeaderField // without those that belong to connections
	pseudo  int                 // how many of them, the first, are pseudo-header fields
	left    int
	long    bool   // the list is longer than limit
	bad     string // what is wrong with it; "": nothing
	connect string // a field of HTTP/1's connections (section 8.2.2)
}

func (b *block) begin() {
	clear(b.fields)
	b.fields, b.pseudo, b.left, b.long, b.bad, b.connect = b.fields[:0], 0, b.limit, false, "", ""
	b.dec.SetEmitEnabled(true)
}

// most is how many bytes of a block are read. Those of a list beyond the limit are decoded for the tables only.
func (b *block) most() int { return 2*b.limit + frameBytes }

// add takes a field that was decoded.
func (b *block) add(f hpack.HeaderField) {
	if b.left -= int(f.Size()); b.left < 0 {
		b.long = true
		b.dec.SetEmitEnabled(false) // the rest is decoded for the tables only
		return
	}
	switch {
	case !httpguts.ValidHeaderFieldValue(f.Value):
		b.bad = "a value of " + f.Name
	case strings.HasPrefix(f.Name, ":"):
		if b.pseudo < len(b.fields) || b.connect != "" {
			b.bad = "pseudo-header fields behind others" // section 8.3
			return
		}
		b.pseudo++
		b.fields = append(b.fields, f)
	case !validName(f.Name):
		b.bad = "a name of a field"
	case ofConnection(f):
		b.connect = f.Name
	default:
		b.fields = append(b.fields, f)
	}
}

// validName is section 8.2.1: a token without upper case.
func validName(name string) bool {
	for i := range len(name) {
		if c := name[i]; c >= 'A' && c <= 'Z' || !httpguts.IsTokenRune(rune(c)) {
			return false
		}
	}
	return name != ""
}

func ofConnection(f hpack.HeaderField) bool {
	switch f.Name {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		return true
	case "te":
		return f.Value != "trailers"
	}
	return false
}

// header makes a header of what is no pseudo-header field.
func (b *block) header(n *names) http.Header {
	fields := b.fields[b.pseudo:]
	h := make(http.Header, len(fields))
	values := make([]string, len(fields)) // of all, in one piece
	for i, f := range fields {
		values[i] = f.Value
		name := n.canonical(f.Name)
		if before, ok := h[name]; ok {
			h[name] = append(before, f.Value)
		} else {
			h[name] = values[i : i+1 : i+1]
		}
	}
	return h
}

// trailer makes trailers of a block, or says what is wrong with it (section 8.1).
func (b *block) trailer(n *names, id uint32, end bool) (http.Header, error) {
	switch {
	case !end:
		return nil, malformed(id, "trailers without the end")
	case b.pseudo > 0:
		return nil, malformed(id, "pseudo-header fields in trailers")
	case b.long:
		return nil, faulty(id, http2.ErrCodeEnhanceYourCalm, "trailers are too long")
	}
	return b.header(n), nil
}

// encode adds a field to the block that is to be written. c.mu is held.
func (c *conn) encode(lower, value string) {
	_ = c.enc.WriteField(hpack.HeaderField{Name: lower, Value: value})
}

// writeBlock queues what was encoded. c.mu is held.
func (c *conn) writeBlock(id uint32, end bool) {
	rest := c.encoded.Bytes()
	piece := func() []byte {
		p := rest[:min(len(rest), c.peerFrame, frameBytes)]
		rest = rest[len(p):]
		return p
	}
	p := piece()
	_ = c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p, EndStream: end, EndHeaders: len(rest) == 0})
	for len(rest) > 0 {
		p = piece()
		_ = c.fr.WriteContinuation(id, len(rest) == 0, p)
	}
	c.encoded.Reset()
	if c.encoded.Cap() > frameBytes {
		c.encoded = bytes.Buffer{}
	}
}

// sendable reports whether a field may be sent: it is no field of a connection's and breaks no rule.
func sendable(name, value string) bool {
	return httpguts.ValidHeaderFieldName(name) && httpguts.ValidHeaderFieldValue(value)
}

// hopByHop are fields of HTTP/1's connections, which are never sent (section 8.2.2).
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}
