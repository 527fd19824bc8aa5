package http2

import (
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	xhttp2 "golang.org/x/net/http2"
)

// response is the ResponseWriter of a handler. It sends the headers that the handler sets, and adds only Date
// if configured. Output is queued until Flush, until there is much of it, or until the end, so that headers,
// a message and trailers leave together.
type response struct {
	call       *serverStream
	header     http.Header
	trailer    http.Header // from WriteTrailers
	returned   bool        // the handler has returned without a panic
	writeTimer *time.Timer // of the write deadline
	releaser   Releaser    // from WriteTrailers

	// Guarded by the connection's mu.
	fields      []headerField  // the headers as of WriteHeader
	fieldBuf    [8]headerField // storage for fields, and then for trailers
	announced   []string       // names of announced trailers
	status      int            // 0: WriteHeader was not called
	headersSent bool           // the headers are queued
	length      int64          // bytes that may still be written; -1: no limit
}

// ResponseWriter is the http.ResponseWriter that handlers of a Server get.
type ResponseWriter interface {
	http.ResponseWriter
	WriteHeaders(h http.Header, status int) // is WriteHeader with h as the headers, without a copy
	// WriteTrailers sets trailers in addition to those in Header(). The server may reuse the memory of the request and
	// the response if r permits it; nil: it may not.
	WriteTrailers(h http.Header, r Releaser)
	FlushError() error
	Conn() (*StreamConn, error) // for a CONNECT request
	SetReadDeadline(at time.Time) error
	SetWriteDeadline(at time.Time) error
}

// Releaser lets the memory of a request and its response be reused.
type Releaser interface {
	// Release is called once the handler has returned and the response has ended. It returns false if a goroutine, a
	// timer or a request to another server that the handler has started may still refer to the request or the response.
	Release() bool
}

// headerField is a field: a name in the form of http.Header, and its values.
type headerField struct {
	name   string
	values []string
}

// MarkBody sets whether the frames of the body that follow are kept out of the history of a link. A body may be marked
// only on connections of KeepSecrets.
func (w *response) MarkBody(marked bool) {
	w.call.c.mu.Lock()
	defer w.call.c.mu.Unlock()
	w.call.marked = marked
}

// Header returns the headers until WriteHeader is called, and then the trailers: those that "Trailer" has
// announced, and names that begin with http.TrailerPrefix.
func (w *response) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

// WriteHeader sets the status. Informational responses are sent at once.
func (w *response) WriteHeader(status int) { w.WriteHeaders(w.header, status) }

// WriteHeaders is WriteHeader with h as the headers. It takes h over instead of copying it.
func (w *response) WriteHeaders(h http.Header, status int) {
	c := w.call.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.status != 0 || w.call.handlerDone {
		return
	}
	w.header = h
	w.begin(status)
	if status == http.StatusContinue {
		w.call.expectsContinue.Store(false)
	}
	if status < 200 {
		_ = w.sendHeaders(false)
		w.status, w.headersSent = 0, false
		c.flush()
	}
}

// WriteTrailers sets trailers that are sent at the end of the response, in addition to those in Header. r decides then
// whether the memory of the request and the response is reused.
func (w *response) WriteTrailers(h http.Header, r Releaser) { w.trailer, w.releaser = h, r }

// begin records the status and the headers. c.mu must be held, also for the functions that follow.
func (w *response) begin(status int) {
	w.status, w.length, w.announced = status, -1, nil
	w.fields = w.fieldBuf[:0]
	for name, values := range w.header {
		switch {
		case name == "Connection" && httpguts.HeaderValuesContainsToken(values, "close"): // from HTTP/1 handlers
			w.call.server.beginDrain()
			continue
		case len(values) == 0 || isHopByHop(name) || strings.HasPrefix(name, http.TrailerPrefix):
			continue
		case name == "Trailer":
			w.announce(values)
		case name == "Content-Length":
			if n, ok := contentLength(values); !ok {
				continue
			} else if status >= 200 {
				w.length = n
			}
		}
		w.fields = append(w.fields, headerField{name, values})
	}
	for _, name := range w.announced {
		w.fields = slices.DeleteFunc(w.fields, func(f headerField) bool { return strings.EqualFold(f.name, name) })
	}
	if _, dated := w.header["Date"]; !dated && w.call.server.cfg.Date && status >= 200 {
		w.fields = append(w.fields, headerField{"Date", []string{time.Now().UTC().Format(http.TimeFormat)}})
	}
}

func (w *response) announce(values []string) {
	for _, v := range values {
		for name := range strings.SplitSeq(v, ",") {
			if name = http.CanonicalHeaderKey(strings.TrimSpace(name)); name != "" && !isHopByHop(name) {
				w.announced = append(w.announced, name)
			}
		}
	}
}

// sendHeaders queues the headers.
func (w *response) sendHeaders(end bool) error {
	if w.headersSent {
		return nil
	}
	if w.status == 0 {
		w.begin(http.StatusOK)
	}
	if err := w.call.awaitRoom(); err != nil {
		return err
	}
	w.headersSent = true
	c := w.call.c
	c.encodeStatus(w.status)
	secret := w.call.secrets.list(true)
	for _, f := range w.fields {
		c.encodeFields(f.name, f.values, secret)
	}
	w.fields = nil
	if c.writeBlock(w.call.id, end); end {
		w.call.endLocal()
	}
	return nil
}

func (c *conn) encodeStatus(status int) {
	text := "200" // a constant needs no allocation
	if status != http.StatusOK {
		text = strconv.Itoa(status)
	}
	c.encode(":status", text, false)
}

func (w *response) Write(p []byte) (int, error) {
	s := w.call
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.handlerDone {
		return 0, errHandlerDone
	}
	if w.status == 0 {
		w.begin(http.StatusOK)
	}
	switch {
	case w.status < 200 || w.status == http.StatusNoContent || w.status == http.StatusNotModified:
		return 0, http.ErrBodyNotAllowed
	case w.length >= 0 && w.length < int64(len(p)):
		return 0, http.ErrContentLength
	case w.length >= 0:
		w.length -= int64(len(p))
	}
	if s.r.Method == http.MethodHead || len(p) == 0 {
		return len(p), nil
	}
	if err := w.sendHeaders(false); err != nil {
		return 0, err
	}
	if err := s.write(p, false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush sends the headers and what was written.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError is Flush, but returns the error that ended the stream.
func (w *response) FlushError() error {
	s := w.call
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.handlerDone {
		return errHandlerDone
	}
	if err := w.sendHeaders(false); err != nil {
		return err
	}
	s.c.flush()
	return s.outErr
}

// finish ends the response and sends its trailers.
func (w *response) finish() {
	s := w.call
	if s.outErr != nil {
		return
	}
	var trailers []headerField
	if w.headersSent {
		trailers = w.fieldBuf[:0]
	}
	for name, values := range w.trailer {
		if len(values) > 0 && !isHopByHop(name) {
			trailers = append(trailers, headerField{name, values})
		}
	}
	for _, name := range w.announced {
		if values := w.header[name]; len(values) > 0 {
			trailers = append(trailers, headerField{name, values})
		}
	}
	for name, values := range w.header {
		if rest, ok := strings.CutPrefix(name, http.TrailerPrefix); ok && len(values) > 0 && !isHopByHop(rest) {
			trailers = append(trailers, headerField{rest, values})
		}
	}
	if !w.headersSent {
		if err := w.sendHeaders(len(trailers) == 0); err != nil || s.localEnd {
			return
		}
	}
	if len(trailers) == 0 {
		_ = s.write(nil, true)
		return
	}
	if s.awaitRoom() != nil {
		return
	}
	secret := s.secrets.list(true)
	for _, f := range trailers {
		s.c.encodeFields(f.name, f.values, secret)
	}
	s.writeTrailers()
}

// resetLate resets the stream, because its peer reads too slowly.
func (w *response) resetLate() {
	if !w.call.handlerDone {
		w.call.c.reset(&w.call.stream, xhttp2.ErrCodeInternal, os.ErrDeadlineExceeded)
	}
}

// SetReadDeadline limits reads of the body. http.ResponseController calls it.
func (w *response) SetReadDeadline(at time.Time) error {
	w.call.setReadDeadline(at)
	return nil
}

// SetWriteDeadline resets the stream at the given time.
func (w *response) SetWriteDeadline(at time.Time) error {
	w.call.setWriteDeadline(at)
	return nil
}

// EnableFullDuplex does nothing: HTTP/2 is always full duplex.
func (w *response) EnableFullDuplex() error { return nil }

var _ ResponseWriter = (*response)(nil)
