package h2

import (
	"bytes"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// block is a header block as it is decoded. There is one a connection, which belongs to the reader.
type block struct {
	dec   *hpack.Decoder
	names names // of fields that have come
	limit int   // bytes of the list, as HTTP/2 counts them (RFC 9113, section 6.5.2)
	most  int   // bytes of a block that are read: those of a list beyond the limit are decoded for the tables only

	fields  []hpack.HeaderField // without those that belong to connections; names as http.Header has them, but for pseudo-header fields
	pseudo  int                 // how many of them, the first, are pseudo-header fields
	room    int                 // bytes of limit that are free
	long    bool                // the list is longer than limit
	bad     string              // what is wrong with it; "": nothing
	connect string              // a field of HTTP/1's connections (section 8.2.2)
}

// add takes a field that was decoded.
func (b *block) add(f hpack.HeaderField) {
	if b.room -= int(f.Size()); b.room < 0 {
		b.long = true
		b.dec.SetEmitEnabled(false) // the rest is decoded for the tables only
		return
	}
	if !httpguts.ValidHeaderFieldValue(f.Value) {
		b.bad = "a value of " + f.Name
		return
	}
	if strings.HasPrefix(f.Name, ":") {
		if b.pseudo < len(b.fields) || b.connect != "" {
			b.bad = "pseudo-header fields behind others" // section 8.3
			return
		}
		b.pseudo++
		b.fields = append(b.fields, f)
		return
	}
	switch name := b.names.canonical(f.Name); {
	case name == "":
		b.bad = "a name of a field"
	case hopByHop(name), name == "Te" && f.Value != "trailers":
		b.connect = f.Name
	default:
		f.Name = name
		b.fields = append(b.fields, f)
	}
}

// header makes a header of what is no pseudo-header field.
func (b *block) header() http.Header {
	fields := b.fields[b.pseudo:]
	h := make(http.Header, len(fields))
	values := make([]string, len(fields)) // of all, in one piece
	for i, f := range fields {
		values[i] = f.Value
		if before, ok := h[f.Name]; ok {
			h[f.Name] = append(before, f.Value)
		} else {
			h[f.Name] = values[i : i+1 : i+1]
		}
	}
	return h
}

// trailer makes trailers of a block, or says what is wrong with it (section 8.1).
func (b *block) trailer(id uint32, end bool) (http.Header, error) {
	switch {
	case !end:
		return nil, malformed(id, "trailers without the end")
	case b.pseudo > 0:
		return nil, malformed(id, "pseudo-header fields in trailers")
	case b.long:
		return nil, faulty(id, http2.ErrCodeEnhanceYourCalm, "trailers are too long")
	}
	return b.header(), nil
}

// secrets holds the names of an exchange's fields that came as never indexed: they have to be sent so (RFC 7541, 6.2.3).
// What enters the table of a connection instead can be guessed by other clients that share it, from the size of blocks.
type secrets struct {
	mu       sync.Mutex
	names    []string
	answered bool // by HTTP/2
}

// secretsKey finds the secrets of an exchange in the context of a Server's request.
type secretsKey struct{}

// unmarked are the fields that are sent as never indexed if they come from HTTP/1, which can't mark them.
var unmarked = []string{"Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie"}

// add takes the names of marked fields, of a request or an answer to it. s is nil for requests that are not a Server's.
func (s *secrets) add(fields []hpack.HeaderField, answer bool) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered = s.answered || answer
	for _, f := range fields {
		if f.Sensitive {
			s.names = append(s.names, f.Name)
		}
	}
}

// list returns the names of fields that are to be marked in the request, or in the answer.
func (s *secrets) list(answer bool) []string {
	if s == nil {
		return unmarked
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer && !s.answered {
		return unmarked
	}
	return s.names
}

// encode adds a field to the block that is to be written. c.mu is held, as in what follows.
func (c *conn) encode(lower, value string, secret bool) {
	_ = c.enc.WriteField(hpack.HeaderField{Name: lower, Value: value, Sensitive: secret})
}

// encodeFields adds the values of a response's or trailer's field, unless they break a rule, as never indexed if its
// name is among secret. They come from a handler or have been changed by one, so what block.add has refused of the
// peer's does not make them valid. The fields of requests are checked by NewSending, which refuses the whole request.
func (c *conn) encodeFields(name string, values, secret []string) {
	for _, v := range values {
		if sendable(name, v) {
			c.encode(c.outNames.lower(name), v, slices.Contains(secret, name))
		}
	}
}

// writeTrailers queues the trailers that were encoded, with the end of the stream. A block has to have fields, so an
// empty one is no block.
func (s *stream) writeTrailers() {
	if s.c.encoded.Len() == 0 {
		s.data(nil, true)
	} else {
		s.c.writeBlock(s.id, true)
	}
	s.endLocal()
}

// writeBlock queues what was encoded.
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

// sendable reports whether a field's name and value are valid, so that a peer reads one field of HTTP in it, and no
// more.
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

func validMethod(m string) bool {
	for i := range len(m) {
		if !httpguts.IsTokenRune(rune(m[i])) {
			return false
		}
	}
	return true
}

// validPath reports whether HTTP/1 could not read a path in another way. The values of fields hold no other blanks.
func validPath(p string) bool {
	return (strings.HasPrefix(p, "/") || p == "*") && !strings.ContainsAny(p, " \t")
}

// contentLength is -1 where there is none.
func contentLength(values []string) (n int64, ok bool) {
	if len(values) == 0 {
		return -1, true
	}
	for _, v := range values[1:] {
		if v != values[0] {
			return 0, false
		}
	}
	u, err := strconv.ParseUint(values[0], 10, 63)
	return int64(u), err == nil
}

// announced takes from a header what it says of trailers.
func announced(h http.Header) (trailers http.Header) {
	for _, v := range h["Trailer"] {
		for name := range strings.SplitSeq(v, ",") {
			name = textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name))
			switch name {
			case "", "Transfer-Encoding", "Trailer", "Content-Length":
				continue
			}
			if trailers == nil {
				trailers = http.Header{}
			}
			trailers[name] = nil
		}
	}
	delete(h, "Trailer")
	return trailers
}

// maxNames is how many names a connection keeps the other form of.
const maxNames = 100

// common are names that any connection has.
var common = [...]string{
	"accept", "accept-encoding", "accept-language", "authorization", "cache-control", "content-encoding", "content-length",
	"content-type", "cookie", "date", "grpc-accept-encoding", "grpc-encoding", "grpc-message", "grpc-message-type",
	"grpc-previous-rpc-attempts", "grpc-status", "grpc-status-details-bin", "grpc-timeout", "grpc-trace-bin", "server", "set-cookie",
	"te", "traceparent", "tracestate", "trailer", "user-agent", "vary", "via", "x-forwarded-for", "x-request-id",
}

var commonCanonical, commonLower = func() (map[string]string, map[string]string) {
	canonical, lower := map[string]string{}, map[string]string{}
	for _, name := range common {
		c := textproto.CanonicalMIMEHeaderKey(name)
		canonical[name], lower[c] = c, name
	}
	return canonical, lower
}()

// names turns names of fields into their other form, without allocations for those that it has met.
type names map[string]string

// canonical is the form of http.Header; "" for what is no name of HTTP/2 (RFC 9113, section 8.2.1): a token without upper case.
func (n *names) canonical(lower string) string {
	if c, ok := commonCanonical[lower]; ok {
		return c
	}
	return n.keep(lower, func(name string) string {
		for i := range len(name) {
			if c := name[i]; c >= 'A' && c <= 'Z' || !httpguts.IsTokenRune(rune(c)) {
				return ""
			}
		}
		return textproto.CanonicalMIMEHeaderKey(name)
	})
}

// lower is the form of HTTP/2 (RFC 9113, section 8.2).
func (n *names) lower(canonical string) string {
	if l, ok := commonLower[canonical]; ok {
		return l
	}
	return n.keep(canonical, strings.ToLower)
}

func (n *names) keep(name string, convert func(string) string) string {
	if other, ok := (*n)[name]; ok {
		return other
	}
	other := convert(name)
	if *n == nil {
		*n = names{}
	}
	if len(*n) < maxNames && len(name) < 64 && other != "" {
		(*n)[strings.Clone(name)] = other
	}
	return other
}
