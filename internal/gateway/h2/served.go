package h2

import (
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/panics"
)

// served is a request of a client's, and the body of it.
type served struct {
	stream
	scope   Scope // of the request: it ends with the stream, or the handler
	server  *Server
	request http.Request
	url     url.URL
	r       *http.Request // request; nil: no handler gets it
	w       response
	asks    atomic.Bool // for 100 (Continue) before it sends the body
	over    bool        // its handler has returned
}

// begin completes the request. server.mu is held.
func (s *served) begin() {
	s.w.call = s
	if s.r.Body = http.NoBody; s.ended {
		return
	}
	s.r.Body = s
	if httpguts.HeaderValuesContainsToken(s.r.Header["Expect"], "100-continue") {
		s.asks.Store(true)
		delete(s.r.Header, "Expect")
	}
}

// run serves the request.
func (s *served) run() {
	defer gateway.CatchPanic(s.server.Log, s.server.Stats, s.server.breakOff)
	defer s.end()
	s.server.cfg.Handler.ServeHTTP(&s.w, s.r)
	s.w.returned = true
}

// end ends the response behind the handler, by a reset if it panicked: http.ErrAbortHandler is the way to ask for that.
func (s *served) end() {
	w := &s.w
	if !w.returned {
		if v := recover(); v != nil && v != http.ErrAbortHandler {
			panics.Report(s.server.Log, s.server.Stats, v)
		}
	}
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.returned {
		w.finish()
	} else {
		c.reset(&s.stream, http2.ErrCodeInternal, errHandlerDone)
	}
	s.over = true
	if w.expiry != nil {
		w.expiry.Stop()
	}
	s.drop(errBodyClosed)
	if !s.gone { // the client need not send the rest (RFC 9113, section 8.1)
		c.reset(&s.stream, http2.ErrCodeNo, errHandlerDone)
	}
	s.scope.End()
	s.server.ended()
	c.flush()
}

// refuse answers a request that no handler gets. server.mu is held.
func (s *served) refuse(status int) {
	c := s.c
	c.control(func() error { // whoever reads no answers gets no more of them
		c.encodeStatus(status)
		c.writeBlock(s.id, true)
		return nil
	})
	s.finished = true
	s.finish()
	if !s.gone {
		c.reset(&s.stream, http2.ErrCodeNo, errHandlerDone)
	}
}

// Read reads the request's body. Asked for no bytes it waits for some.
func (s *served) Read(p []byte) (int, error) {
	if s.asks.Load() {
		s.letGoOn()
	}
	return s.read(p, s.tellTrailers)
}

// letGoOn says 100 to a client that waits for it.
func (s *served) letGoOn() {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.asks.Swap(false) && s.in.len() == 0 && !s.ended && !s.w.sent && s.mayWrite() == nil {
		c.encodeStatus(http.StatusContinue)
		c.writeBlock(s.id, false)
		c.flush()
	}
}

// tellTrailers hands over trailers that were announced. server.mu is held.
func (s *served) tellTrailers() {
	if s.trailer == nil { // there are none, or they are told
		return
	}
	for name := range s.r.Trailer {
		s.r.Trailer[name] = s.trailer[name]
	}
	s.trailer = nil
}

// Close drops what comes of the body from now on.
func (s *served) Close() error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.drop(errBodyClosed)
	s.wake.Broadcast()
	s.c.flush()
	return nil
}

// Complete reports whether all of the body is here, or its end by an error: no read will wait.
func (s *served) Complete() bool { return s.complete() }

// Begun reports whether anything has come of the body, or its end.
func (s *served) Begun() bool { return s.came.Load() }

// expireWrites resets the stream at a time.
func (s *served) expireWrites(at time.Time) {
	w := &s.w
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.expiry != nil {
		w.expiry.Stop()
		w.expiry = nil
	}
	if at.IsZero() || s.gone {
		return
	}
	wait := time.Until(at)
	if wait <= 0 {
		w.expire()
		c.flush()
		return
	}
	w.expiry = c.after(wait, w.expire)
}
