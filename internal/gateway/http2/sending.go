package http2

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// completer is a body that reports whether it has arrived completely, so that no read will wait.
type completer interface{ Complete() bool }

// Sending is a request to send. It may be tried on several connections, until one of them begins to send it.
type Sending struct {
	Client *Client // the client that made the request; nil: none
	// Widen is called before the receive window of the response grows by n bytes beyond ClientConfig.Window. It
	// reports whether the window may grow, and must not wait. nil: it does not grow.
	Widen func(n int64) bool

	r        *http.Request
	host     string
	path     string // "" for CONNECT
	length   int64  // of the body in bytes; -1: unknown
	trailers string // the value of the Trailer field
	secrets  *secrets

	piece []byte // the start of the body, read ahead; pooled unless lent
	whole bool   // piece is the whole body
	lent  bool   // piece belongs to the caller of NewSending

	tunnel bool // a StreamConn writes the body

	sent *clientStream // the request as Send has sent it, for Release; nil: there was no response
}

// NewSending checks a request, so that nothing is sent that servers could interpret differently, and reads
// what has arrived of its body. The path is r.RequestURI if set, and r.URL's otherwise. body is the whole
// body in place of r.Body; it is not used after Send has returned. If body is nil, r.Body is sent. Send,
// Close or a failing NewSending closes r.Body.
func NewSending(r *http.Request, body []byte) (Sending, error) {
	o := Sending{r: r, host: cmp.Or(r.Host, r.URL.Host), length: r.ContentLength, piece: body, whole: body != nil, lent: body != nil}
	if !httpguts.ValidHostHeader(o.host) {
		return o.refuse("host")
	}
	switch {
	case !o.lent && (r.Body == nil || r.Body == http.NoBody):
		o.length, o.whole = 0, true
	case o.length == 0:
		o.length = -1
	}
	if r.Method != http.MethodConnect {
		if o.path = r.RequestURI; o.path == "" {
			o.path = r.URL.RequestURI()
			if !validPath(o.path) {
				o.path = strings.TrimPrefix(o.path, r.URL.Scheme+"://"+o.host)
			}
		}
		if !validPath(o.path) || !httpguts.ValidHeaderFieldValue(o.path) {
			return o.refuse("path")
		}
	}
	if !validMethod(r.Method) {
		return o.refuse("method")
	}
	for name := range r.Trailer {
		switch name {
		case "Transfer-Encoding", "Trailer", "Content-Length":
			return o.refuse("trailer")
		}
	}
	if len(r.Trailer) > 0 {
		o.trailers = strings.Join(slices.Sorted(maps.Keys(r.Trailer)), ",")
	}
	for name, values := range r.Header {
		for _, v := range values {
			if !validField(name, v) {
				return o.refuse("header")
			}
		}
	}
	o.secrets, _ = r.Context().Value(secretsKey{}).(*secrets)
	if !o.whole {
		if err := o.readAhead(); err != nil {
			o.Close()
			return o, err
		}
	}
	return o, nil
}

// refuse closes a request that is invalid.
func (o *Sending) refuse(what string) (Sending, error) {
	o.Close()
	return *o, fmt.Errorf("http2: a request's %s is not valid", what)
}

// size returns the size of the header list, as HTTP/2 counts it.
func (o *Sending) size() (n int64) {
	o.eachField(func(name, value string) { n += int64(len(name) + len(value) + 32) })
	return n
}

// eachField calls f with each field of the header. Names are in the form of http.Header.
func (o *Sending) eachField(f func(name, value string)) {
	f(":authority", o.host)
	method := o.r.Method
	if method == "" {
		method = http.MethodGet
	}
	f(":method", method)
	if o.path != "" {
		f(":path", o.path)
		f(":scheme", o.r.URL.Scheme)
	}
	if o.trailers != "" {
		f("Trailer", o.trailers)
	}
	for name, values := range o.r.Header {
		switch {
		case name == "Host" || name == "Content-Length" || name == "" || isHopByHop(name):
			continue
		case name == "User-Agent" && (len(values) == 0 || values[0] == ""):
			continue
		case name == "Cookie":
			eachCookie(values, f)
			continue
		}
		for _, v := range values {
			f(name, v)
		}
	}
	if o.length > 0 || o.length == 0 && hasLength(method) {
		f("Content-Length", strconv.FormatInt(o.length, 10))
	}
}

// hasLength reports whether requests of a method carry content-length even if their body is empty.
func hasLength(method string) bool { return method == "POST" || method == "PUT" || method == "PATCH" }

// eachCookie splits cookies into crumbs, which compress better (RFC 9113, section 8.2.3).
func eachCookie(values []string, f func(name, value string)) {
	for _, v := range values {
		for crumb := range strings.SplitSeq(v, ";") {
			if crumb = strings.TrimLeft(crumb, " "); crumb != "" {
				f("Cookie", crumb)
			}
		}
	}
}

// readAhead reads a body that has arrived completely, as far as it fits a piece. It does not block.
func (o *Sending) readAhead() error {
	body, ok := o.r.Body.(completer)
	if !ok || !body.Complete() {
		return nil
	}
	o.piece = memory.GetBuffer(pieceBytes)
	for len(o.piece) < cap(o.piece) {
		n, err := o.r.Body.Read(o.piece[len(o.piece):cap(o.piece)])
		o.piece = o.piece[:len(o.piece)+n]
		if err == io.EOF {
			o.whole = true
			break
		}
		if err != nil {
			return err
		}
	}
	if o.whole && o.length >= 0 && o.length != int64(len(o.piece)) {
		return errShortBody
	}
	return nil
}

// expectsContinue reports whether the request waits for 100 (Continue) before it sends the body (RFC 9110,
// section 10.1.1).
func (o *Sending) expectsContinue() bool {
	return o.length != 0 && httpguts.HeaderValuesContainsToken(o.r.Header["Expect"], "100-continue")
}

// Close closes a request that was not sent.
func (o *Sending) Close() {
	if !o.lent {
		memory.PutBuffer(o.piece)
	}
	o.piece, o.lent = nil, false
	if o.r.Body != nil {
		_ = o.r.Body.Close()
	}
}

// Request returns the request with its whole body, for a caller that sends it in another way. It is for a
// Sending made without a body of its own, which must not be used afterwards.
func (o *Sending) Request() *http.Request {
	if len(o.piece) == 0 {
		return o.r
	}
	r := o.r.WithContext(o.r.Context())
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(o.piece), o.r.Body), o.r.Body}
	return r
}
