package h2

import (
	"time"

	"golang.org/x/net/http2"
)

// drainTime is how long a client may take to hear that the connection ends, before it is told which streams count.
const drainTime = time.Second

// drainPing is the content of the ping whose answer says that it has.
var drainPing = [8]byte{'c', 'i', 'n', 'c', 'h', 'e', 'n', 'd'}

// drain is how far the end of a server's connection has come.
type drain struct {
	begun bool
	last  bool   // no stream is taken any more
	below uint32 // the highest that was
	timer *time.Timer
}

// Drain ends the connection after the last request. It says GOAWAY at once and lets requests in that are under way to us; when
// the client has heard it, it says which were the last (RFC 9113, section 6.8). It returns at once.
func (s *Server) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.goAway()
	s.flush()
}

// goAway says the first GOAWAY. s.mu is held.
func (s *Server) goAway() {
	if s.drain.begun || s.err != nil {
		return
	}
	s.drain.begun = true
	_ = s.fr.WriteGoAway(maxStreamID, http2.ErrCodeNo, nil)
	_ = s.fr.WritePing(false, drainPing)
	s.drain.timer = s.after(drainTime, s.drained)
}

func (s *Server) ponged(data [8]byte) {
	if data == drainPing && s.drain.begun {
		s.drained()
	}
}

// drained says which was the last request. s.mu is held.
func (s *Server) drained() {
	if s.drain.last || s.err != nil {
		return
	}
	s.drain.timer.Stop()
	s.drain.last, s.drain.below = true, s.highest
	_ = s.fr.WriteGoAway(s.highest, http2.ErrCodeNo, nil)
	if len(s.streams) == 0 {
		s.leave()
	}
}

// idling ends a connection that has no requests for as long as IdleTimeout, whatever else comes on it. Guarded by the connection's mu.
type idling struct {
	since time.Time // the last request ended, or the connection began
	timer *time.Timer
}

// awaitIdle begins to look for that. s.mu is held.
func (s *Server) awaitIdle() {
	if s.cfg.IdleTimeout > 0 {
		s.idling = idling{time.Now(), s.after(s.cfg.IdleTimeout, s.lookIdle)}
	}
}

// lookIdle says GOAWAY, or looks again later. s.mu is held.
func (s *Server) lookIdle() {
	wait := s.cfg.IdleTimeout
	if len(s.streams) == 0 {
		wait -= time.Since(s.idling.since)
	}
	switch {
	case s.err != nil:
	case wait > 0:
		s.idling.timer.Reset(wait)
	default:
		s.goAway()
	}
}
