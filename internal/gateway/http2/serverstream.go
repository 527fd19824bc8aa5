package http2

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
	xhttp2 "golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/system/panics"
)

// serverStream is a client's request and its body.
type serverStream struct {
	stream
	scope           Scope // context of the request: it ends with the stream, or the handler
	secrets         secrets
	server          *Server
	request         http.Request
	url             url.URL
	r               *http.Request // &request; nil: no handler gets it
	w               response
	expectsContinue atomic.Bool // the client waits for 100 (Continue) before it sends the body
	handlerDone     bool        // its handler has returned
	header          headerMemory
}

// serverStreams holds unused streams.
var serverStreams = sync.Pool{New: func() any { return &serverStream{} }}

// The pseudo-header fields of a request (RFC 9113, section 8.3.1).
const (
	pseudoMethod = iota
	pseudoScheme
	pseudoAuthority
	pseudoPath
)

var pseudoNames = []string{":method", ":scheme", ":authority", ":path"}

// parseHeaders fills in the request from its headers. server.mu must be held.
func (s *serverStream) parseHeaders(id uint32, end bool, b *block) error {
	var p [4]string
	var has [4]bool
	for _, f := range b.fields[:b.pseudo] {
		i := slices.Index(pseudoNames, f.Name)
		if i < 0 {
			return malformed(id, "unknown pseudo-header field")
		}
		if has[i] {
			return malformed(id, "duplicate pseudo-header field")
		}
		has[i], p[i] = true, f.Value
	}
	method, scheme, authority, path := p[pseudoMethod], p[pseudoScheme], p[pseudoAuthority], p[pseudoPath]
	switch {
	case method == "" || !validMethod(method):
		return malformed(id, ":method")
	case method == http.MethodConnect: // section 8.5
		if has[pseudoScheme] || has[pseudoPath] || authority == "" {
			return malformed(id, "CONNECT")
		}
	case scheme != "http" && scheme != "https":
		return malformed(id, ":scheme")
	case !validPath(path) || path == "*" && method != http.MethodOptions:
		return malformed(id, ":path")
	}
	if !httpguts.ValidHostHeader(authority) {
		return malformed(id, ":authority")
	}

	// WithContext is the only way to set a request's context. The copy that it returns stays on the stack.
	s.request = *new(http.Request).WithContext(&s.scope)
	r := &s.request
	r.Method, r.Host, r.RequestURI, r.URL = method, authority, path, &s.url
	r.RemoteAddr, r.TLS = s.server.remote, s.server.tls
	r.Proto, r.ProtoMajor = "HTTP/2.0", 2
	switch {
	case method == http.MethodConnect:
		r.URL.Host, r.RequestURI = authority, authority
	case plainPath(path):
		r.URL.Path = path
	default:
		u, err := url.ParseRequestURI(path)
		if err != nil {
			return malformed(id, ":path")
		}
		r.URL = u
	}

	r.Header = b.header(&s.header)
	if hosts := r.Header["Host"]; len(hosts) > 0 { // it must equal :authority
		if len(hosts) > 1 || r.Host != "" && hosts[0] != r.Host || !httpguts.ValidHostHeader(hosts[0]) {
			return malformed(id, "host")
		}
		r.Host = hosts[0]
		delete(r.Header, "Host")
	}
	length, ok := contentLength(r.Header["Content-Length"])
	switch { // section 8.1.1
	case !ok || length > 0 && end:
		return malformed(id, "content-length")
	case length < 0 && end:
		length = 0
	}
	r.ContentLength = length
	r.Trailer = takeAnnounced(r.Header)
	if cookies := r.Header["Cookie"]; len(cookies) > 1 { // section 8.2.3
		r.Header["Cookie"] = []string{strings.Join(cookies, "; ")}
	}
	s.r = r
	return nil
}

// plainPath reports whether a path needs no parsing.
func plainPath(p string) bool {
	for i := range len(p) {
		switch c := p[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		case c == '/' && (i == 0 || p[i-1] != '/'):
		default:
			return false
		}
	}
	return strings.HasPrefix(p, "/")
}

// run runs the handler.
func (s *serverStream) run() {
	defer s.server.handlers.Done()
	defer gateway.CatchPanic(s.server.Log, s.server.Stats, s.server.abort)
	defer s.end()
	s.server.cfg.Handler.ServeHTTP(&s.w, s.r)
	s.w.returned = true
}

// end ends the response after the handler has returned. It resets the stream if the handler panicked, which
// http.ErrAbortHandler asks for. Then later requests may use s, if nothing refers to it.
func (s *serverStream) end() {
	w := &s.w
	if !w.returned {
		if v := recover(); v != nil && v != http.ErrAbortHandler {
			panics.Report(s.server.Log, s.server.Stats, v)
		}
	}
	unused := s.finish()
	if !w.returned || w.releaser == nil {
		return
	}
	if w.releaser.Release() && unused {
		s.header.reset()
		*s = serverStream{header: s.header}
		serverStreams.Put(s)
	}
}

// finish ends the response, and reports whether the server does not use s any more.
func (s *serverStream) finish() (unused bool) {
	w, c := &s.w, s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.returned {
		w.finish()
	} else {
		c.reset(&s.stream, xhttp2.ErrCodeInternal, errHandlerDone)
	}
	s.handlerDone = true
	if w.writeTimer != nil {
		w.writeTimer.Stop()
	}
	s.drop(errBodyClosed)
	if !s.gone { // the client need not send the rest (RFC 9113, section 8.1)
		c.reset(&s.stream, xhttp2.ErrCodeNo, errHandlerDone)
	}
	s.server.onHandlerDone()
	c.flush()
	// A parent of the scope may be ending it at this moment.
	return s.isUnused() && w.writeTimer == nil && s.scope.parent == nil
}

// refuse answers a request without a handler. server.mu must be held.
func (s *serverStream) refuse(status int) {
	c := s.c
	c.control(func() error { // counted as control output, which is bounded for a client that reads no answers
		c.encodeStatus(status)
		c.writeBlock(s.id, true)
		return nil
	})
	s.endLocal()
	if !s.gone {
		c.reset(&s.stream, xhttp2.ErrCodeNo, errHandlerDone)
	}
}

// Read reads the request's body. With an empty p it waits for data. Complete is a method of stream.
func (s *serverStream) Read(p []byte) (int, error) {
	if s.expectsContinue.Load() {
		s.sendContinue()
	}
	return s.read(p)
}

// sendContinue sends 100 (Continue) to a client that waits for it.
func (s *serverStream) sendContinue() {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.expectsContinue.Swap(false) && s.in.len() == 0 && !s.remoteEnd && !s.w.headersSent && s.outErr == nil {
		c.encodeStatus(http.StatusContinue)
		c.writeBlock(s.id, false)
		c.flush()
	}
}

// Close discards the rest of the body.
func (s *serverStream) Close() error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.drop(errBodyClosed)
	s.wake.Broadcast()
	s.c.flush()
	return nil
}

// Begun reports whether any of the body, or its end, has arrived.
func (s *serverStream) Begun() bool { return s.bodyBegun.Load() }

// setWriteDeadline resets the stream at the given time. A zero time cancels that.
func (s *serverStream) setWriteDeadline(at time.Time) {
	w := &s.w
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.writeTimer != nil {
		w.writeTimer.Stop()
		w.writeTimer = nil
	}
	if at.IsZero() || s.gone {
		return
	}
	wait := time.Until(at)
	if wait <= 0 {
		w.resetLate()
		c.flush()
		return
	}
	w.writeTimer = c.after(wait, w.resetLate)
}

// maxIdleWorkers limits the goroutines that wait for work. With more concurrent requests than that, stacks
// have to grow for each of the others.
const maxIdleWorkers = 512

// runner is work for a worker. It recovers from its own panics, because a worker can't tell which connection
// they concern.
type runner interface{ run() }

// workers runs work in reused goroutines, so that their stacks need not grow each time.
var workers workerPool

type workerPool struct {
	mu   sync.Mutex
	idle []chan runner // channels of the waiting workers, the most recent last
}

// run runs r in a goroutine, and returns at once.
func (p *workerPool) run(r runner) {
	p.mu.Lock()
	last := len(p.idle) - 1
	if last < 0 {
		p.mu.Unlock()
		go p.work(r)
		return
	}
	w := p.idle[last]
	p.idle[last] = nil
	p.idle = p.idle[:last]
	p.mu.Unlock()
	w <- r
}

func (p *workerPool) work(r runner) {
	next := make(chan runner, 1)
	for {
		r.run()
		r = nil // so that a waiting worker does not keep r's memory alive
		p.mu.Lock()
		if len(p.idle) >= maxIdleWorkers {
			p.mu.Unlock()
			return
		}
		p.idle = append(p.idle, next)
		p.mu.Unlock()
		r = <-next
	}
}
