package h2

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// pieceBytes is what is read of a request's body at a time.
const pieceBytes = 16 << 10

// completer is a body that knows whether all of it is here: no read will wait.
type completer interface{ Complete() bool }

// Sending is a request on its way out. It may be tried on one connection after the other until one of them begins with it.
type Sending struct {
	Client *Client // whose it is; nil: it is no client's

	r        *http.Request
	host     string
	path     string // "": it is CONNECT
	length   int64  // of the body; -1: unknown
	trailers string // announced
	size     int64  // of the header list

	piece []byte // pooled: what was read of the body before the stream began
	whole bool   // that is all of it
}

// NewSending makes a request ready: it checks it, and reads what is here of its body. Its error has closed the body; otherwise Send
// does, or Close.
func NewSending(r *http.Request) (Sending, error) {
	o, err := newSending(r)
	if err == nil {
		err = o.readAhead()
	}
	if err != nil {
		o.Close()
	}
	return o, err
}

// newSending checks a request. Nothing is sent that other servers could read in another way.
func newSending(r *http.Request) (Sending, error) {
	o := Sending{r: r, host: r.Host, length: r.ContentLength}
	if o.host == "" {
		o.host = r.URL.Host
	}
	if !httpguts.ValidHostHeader(o.host) {
		return o, invalid("host")
	}
	switch {
	case r.Body == nil || r.Body == http.NoBody:
		o.length, o.whole = 0, true
	case o.length == 0:
		o.length = -1
	}
	if r.Method != http.MethodConnect {
		o.path = r.URL.RequestURI()
		if !validPath(o.path) {
			o.path = strings.TrimPrefix(o.path, r.URL.Scheme+"://"+o.host)
		}
		if !validPath(o.path) || !httpguts.ValidHeaderFieldValue(o.path) {
			return o, invalid("path")
		}
	}
	return o, o.check()
}

func invalid(what string) error { return fmt.Errorf("h2: a request's %s is not valid", what) }

func (o *Sending) check() error {
	if !validMethod(o.r.Method) {
		return invalid("method")
	}
	for name := range o.r.Trailer {
		switch name {
		case "Transfer-Encoding", "Trailer", "Content-Length":
			return invalid("trailer")
		}
	}
	if len(o.r.Trailer) > 0 {
		names := make([]string, 0, len(o.r.Trailer))
		for name := range o.r.Trailer {
			names = append(names, name)
		}
		slices.Sort(names)
		o.trailers = strings.Join(names, ",")
	}
	for name, values := range o.r.Header {
		for _, v := range values {
			if !sendable(name, v) {
				return invalid("header")
			}
		}
	}
	o.each(func(name, value string) { o.size += int64(len(name) + len(value) + 32) })
	return nil
}

// each calls f with the fields of the header, names as http.Header has them.
func (o *Sending) each(f func(name, value string)) {
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
		case name == "Host" || name == "Content-Length" || name == "" || hopByHop(name):
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

// hasLength is for methods whose requests say so when their body is empty.
func hasLength(method string) bool { return method == "POST" || method == "PUT" || method == "PATCH" }

// eachCookie splits cookies, which compress better apart (RFC 9113, section 8.2.3).
func eachCookie(values []string, f func(name, value string)) {
	for _, v := range values {
		for crumb := range strings.SplitSeq(v, ";") {
			if crumb = strings.TrimLeft(crumb, " "); crumb != "" {
				f("Cookie", crumb)
			}
		}
	}
}

// readAhead reads a body that is here already, as far as it fits a piece. It does not wait.
func (o *Sending) readAhead() error {
	body, ok := o.r.Body.(completer)
	if o.length == 0 || !ok || !body.Complete() {
		return nil
	}
	o.piece = gateway.GetBuffer(pieceBytes)
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

// expects reports whether the server is to say first that it wants the body (RFC 9110, section 10.1.1).
func (o *Sending) expects() bool {
	return o.length != 0 && httpguts.HeaderValuesContainsToken(o.r.Header["Expect"], "100-continue")
}

// Close ends what nobody has begun to send.
func (o *Sending) Close() {
	o.free()
	if o.r.Body != nil {
		_ = o.r.Body.Close()
	}
}

func (o *Sending) free() {
	gateway.PutBuffer(o.piece)
	o.piece = nil
}
