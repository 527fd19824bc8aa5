package http2

import (
	"bytes"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"
	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// block is the header block that is being decoded. A connection has one, used by its reading goroutine.
type block struct {
	dec        *hpack.Decoder
	names      names // converts the names of received fields
	limit      int   // bytes of the list, as HTTP/2 counts them (RFC 9113, section 6.5.2)
	maxEncoded int   // bytes of an encoded block that are read: fields beyond limit are decoded for the tables only

	// Without connection-specific fields. Names are in the form of http.Header, except for pseudo-header
	// fields.
	fields    []hpack.HeaderField
	pseudo    int    // number of leading pseudo-header fields in fields
	remaining int    // bytes of limit that are left
	tooLong   bool   // the list is longer than limit
	bad       string // why the block is malformed; "": it is not
	connField string // the last connection-specific field of HTTP/1, or "" (section 8.2.2)
}

// add adds a decoded field.
func (b *block) add(f hpack.HeaderField) {
	if b.remaining -= int(f.Size()); b.remaining < 0 {
		b.tooLong = true
		b.dec.SetEmitEnabled(false) // the rest is decoded for the tables only
		return
	}
	if !httpguts.ValidHeaderFieldValue(f.Value) {
		b.bad = "invalid value of field " + f.Name
		return
	}
	if strings.HasPrefix(f.Name, ":") {
		if b.pseudo < len(b.fields) || b.connField != "" {
			b.bad = "pseudo-header field after a regular field" // section 8.3
			return
		}
		b.pseudo++
		b.fields = append(b.fields, f)
		return
	}
	switch name := b.names.canonical(f.Name); {
	case name == "":
		b.bad = "invalid field name"
	case isHopByHop(name), name == "Te" && f.Value != "trailers":
		b.connField = f.Name
	default:
		f.Name = name
		b.fields = append(b.fields, f)
	}
}

// headerMemory is memory for a header. Its zero value is ready for use.
type headerMemory struct {
	fields http.Header
	values []string // storage for the values of fields that have one
}

// maxReusedFields limits the fields of a header whose memory is reused.
const maxReusedFields = 32

// reset empties m for the next header.
func (m *headerMemory) reset() {
	clear(m.fields)
	clear(m.values)
}

// header returns the fields that are not pseudo-header fields, in m, which must be empty, unless there are many.
func (b *block) header(m *headerMemory) http.Header {
	fields := b.fields[b.pseudo:]
	if len(fields) > maxReusedFields {
		m = &headerMemory{}
	}
	if m.fields == nil {
		m.fields = make(http.Header, len(fields))
	}
	if cap(m.values) < len(fields) {
		m.values = make([]string, len(fields))
	}
	m.values = m.values[:len(fields)]
	for i, f := range fields {
		m.values[i] = f.Value
		if before, ok := m.fields[f.Name]; ok {
			m.fields[f.Name] = append(before, f.Value)
		} else {
			m.fields[f.Name] = m.values[i : i+1 : i+1]
		}
	}
	return m.fields
}

// trailer returns the block as trailers in m, or an error if it is malformed (section 8.1).
func (b *block) trailer(id uint32, end bool, m *headerMemory) (http.Header, error) {
	switch {
	case !end:
		return nil, malformed(id, "trailers without END_STREAM")
	case b.pseudo > 0:
		return nil, malformed(id, "pseudo-header fields in trailers")
	case b.tooLong:
		return nil, streamError(id, xhttp2.ErrCodeEnhanceYourCalm, "trailers are too long")
	}
	return b.header(m), nil
}

// secrets holds the names of the fields of an exchange that were received as never indexed: they must be
// forwarded so (RFC 7541, 6.2.3). If they entered the dynamic table of a connection, other clients that share
// it could guess them from the size of blocks.
type secrets struct {
	mu       sync.Mutex
	names    []string
	answered bool // response fields have come over HTTP/2
}

// secretsKey is the key of an exchange's secrets in the context of a Server's request.
type secretsKey struct{}

// defaultSecrets lists the fields to send as never indexed if they come from HTTP/1, which can't mark them.
var defaultSecrets = []string{"Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie"}

// add adds the names of marked fields of a request or of its answer. s is nil for requests that did not come
// from a Server.
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

// list returns the names of the fields to mark in the request, or in the answer.
func (s *secrets) list(answer bool) []string {
	if s == nil {
		return defaultSecrets
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer && !s.answered {
		return defaultSecrets
	}
	return s.names
}

// encode adds a field to the block being encoded. c.mu must be held, also for the functions that follow.
func (c *conn) encode(lower, value string, secret bool) {
	_ = c.enc.WriteField(hpack.HeaderField{Name: lower, Value: value, Sensitive: secret})
}

// encodeFields adds the values of a field of a response or of trailers, except invalid ones, as never indexed
// if secret contains its name. These fields come from a handler or were changed by one, so the checks of
// block.add do not cover them. NewSending checks the fields of requests, and refuses the whole request.
func (c *conn) encodeFields(name string, values, secret []string) {
	for _, v := range values {
		if validField(name, v) {
			c.encode(c.outNames.lower(name), v, slices.Contains(secret, name))
		}
	}
}

// writeTrailers queues the encoded trailers with the end of the stream. If none were encoded it queues an
// empty DATA frame instead, as a header block must have fields.
func (s *stream) writeTrailers() {
	if s.c.encoded.Len() == 0 {
		s.queueData(nil, true)
	} else {
		s.c.writeBlock(s.id, true)
	}
	s.endLocal()
}

// writeBlock queues the encoded block.
func (c *conn) writeBlock(id uint32, end bool) {
	rest := c.encoded.Bytes()
	piece := func() []byte {
		p := rest[:min(len(rest), c.peerMaxFrame, frameBytes)]
		rest = rest[len(p):]
		return p
	}
	p := piece()
	_ = c.fr.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: p, EndStream: end, EndHeaders: len(rest) == 0})
	for len(rest) > 0 {
		p = piece()
		_ = c.fr.WriteContinuation(id, len(rest) == 0, p)
	}
	c.encoded.Reset()
	if c.encoded.Cap() > frameBytes {
		c.encoded = bytes.Buffer{}
	}
}

// validField reports whether a field's name and value are valid, so that a peer can't read more than one HTTP
// field in it.
func validField(name, value string) bool {
	return httpguts.ValidHeaderFieldName(name) && httpguts.ValidHeaderFieldValue(value)
}

// isHopByHop reports whether a field belongs to an HTTP/1 connection. Such fields are never sent (section
// 8.2.2).
func isHopByHop(name string) bool {
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

// validPath reports whether HTTP/1 would read a path in the same way. Other blanks are refused in any field
// value.
func validPath(p string) bool {
	return (strings.HasPrefix(p, "/") || p == "*") && !strings.ContainsAny(p, " \t")
}

// contentLength returns -1 if there are no values. It reports false if they are invalid or contradictory.
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

// takeAnnounced removes the Trailer field from a header, and returns the trailers that it announces.
func takeAnnounced(h http.Header) (trailers http.Header) {
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

// maxNames limits the names that a connection caches.
const maxNames = 100

// commonNames lists the names that all connections share.
var commonNames = [...]string{
	"accept", "accept-encoding", "accept-language", "authorization", "cache-control", "content-encoding", "content-length",
	"content-type", "cookie", "date", "grpc-accept-encoding", "grpc-encoding", "grpc-message", "grpc-message-type",
	"grpc-previous-rpc-attempts", "grpc-status", "grpc-status-details-bin", "grpc-timeout", "grpc-trace-bin", "server", "set-cookie",
	"te", "traceparent", "tracestate", "trailer", "user-agent", "vary", "via", "x-forwarded-for", "x-request-id",
}

var commonCanonical, commonLower = func() (map[string]string, map[string]string) {
	canonical, lower := map[string]string{}, map[string]string{}
	for _, name := range commonNames {
		c := textproto.CanonicalMIMEHeaderKey(name)
		canonical[name], lower[c] = c, name
	}
	return canonical, lower
}()

// names converts field names to their other form, without allocation for cached names.
type names map[string]string

// canonical returns the form that http.Header uses, or "" for an invalid name: names are tokens without upper
// case (RFC 9113, section 8.2.1).
func (n *names) canonical(lower string) string {
	if c, ok := commonCanonical[lower]; ok {
		return c
	}
	return n.cached(lower, func(name string) string {
		for i := range len(name) {
			if c := name[i]; c >= 'A' && c <= 'Z' || !httpguts.IsTokenRune(rune(c)) {
				return ""
			}
		}
		return textproto.CanonicalMIMEHeaderKey(name)
	})
}

// lower returns the form that HTTP/2 uses (RFC 9113, section 8.2).
func (n *names) lower(canonical string) string {
	if l, ok := commonLower[canonical]; ok {
		return l
	}
	return n.cached(canonical, strings.ToLower)
}

func (n *names) cached(name string, convert func(string) string) string {
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
