package http

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	xhttp2 "golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/gateway/h2"
)

const (
	// clientWindow is how far a client may be ahead of the gateway in the bodies of a connection of HTTP/2, in bytes.
	clientWindow = 1 << 20
	// usualFields is what HTTP/2 counts for ten fields beside their names and values (RFC 9113, section 6.5.2).
	usualFields = 10 * 32
)

// version is the HTTP that a client speaks.
type version uint8

const (
	unsaid version = iota
	http1
	http2
)

// meet finds out what the client speaks: TLS says it, or how the client begins. What was read of that is returned.
func (s *session) meet() (v version, ahead []byte) {
	if secure, ok := s.client.(*tls.Conn); ok {
		if secure.ConnectionState().NegotiatedProtocol == xhttp2.NextProtoTLS {
			return http2, nil
		}
		return http1, nil
	}
	if !s.beginMeeting() {
		return unsaid, nil
	}
	v, ahead = readVersion(s.client)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meeting = false
	_ = s.client.SetReadDeadline(time.Time{})
	return v, ahead
}

// beginMeeting gives the client some time to say a word. It reports false if there is none left.
func (s *session) beginMeeting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meeting = true
	_ = s.client.SetReadDeadline(time.Now().Add(headerTimeout))
	return !s.over
}

// readVersion reads no more than it takes to know whether a client begins with the preface of HTTP/2.
func readVersion(c net.Conn) (version, []byte) {
	preface := make([]byte, len(xhttp2.ClientPreface))
	for n := 0; n < len(preface); {
		more, err := c.Read(preface[n:])
		n += more
		switch {
		case string(preface[:n]) != xhttp2.ClientPreface[:n]:
			return http1, preface[:n]
		case err != nil:
			return unsaid, nil
		}
	}
	return http2, preface
}

// serveHTTP2 serves the connection until one side ends it.
func (s *session) serveHTTP2(ahead []byte) {
	c := s.handler.cfg
	two := h2.NewServer(s.client, h2.ServerConfig{
		Handler: s.handler, MaxStreams: c.MaxStreams, MaxHeader: c.MaxHeader + usualFields,
		Window: clientWindow, ConnWindow: clientWindow, IdleTimeout: idleTimeout, Date: true, Ahead: ahead,
		Context: context.WithValue(context.Background(), http.ServerContextKey, s.server), // or the reverse proxy would end a reply that was cut off as if it were whole
	})
	s.mu.Lock()
	s.two = two
	over := s.over
	s.mu.Unlock()
	if over {
		two.Drain()
	}
	if err := two.Serve(); err != nil {
		s.handler.errorLog.Printf("HTTP/2 of %s: %v", s.held.Addr, err)
	}
}
