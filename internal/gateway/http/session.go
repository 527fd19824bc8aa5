package http

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	xhttp2 "golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/http2"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/wire/peer"
)

// session is a client's connection. It has its own server, which can be drained separately.
type session struct {
	client         net.Conn
	lengths        *lengthCounter // for HTTP/1.1
	memory         *memory.ConnMemory
	payer          net.Addr      // see gateway.BudgetAddress
	upstreamClient *http2.Client // for HTTP/2 connections to the upstream; nil: there are none
	handler        *handler
	server         *http.Server  // for HTTP/1.1
	grace          time.Duration // see Config

	hijacked   atomic.Bool   // the connection was taken over from the server
	links      *links        // to the far gateway; nil: there are none
	linkClient *http2.Client // of links

	mu        sync.Mutex
	http2     *http2.Server // for HTTP/2; nil: the client speaks HTTP/1.1, or has not begun yet
	detecting bool          // detectVersion is waiting for the client's first bytes
	drained   bool
	stopped   bool // no more servers may begin

	endOnce sync.Once
	done    chan struct{} // closed when the server, or the code that took over the connection, has closed it
}

func newSession(g *Gateway, client net.Conn) gateway.Session {
	payer := gateway.BudgetAddress(client)
	s := &session{
		client: client, lengths: &lengthCounter{Conn: client}, payer: payer, done: make(chan struct{}), grace: g.cfg.Grace,
		memory: memory.NewConnMemory(client.RemoteAddr(), g.requests.Client(payer), g.replies.Client(payer)),
	}
	if pool := g.common.transport.http2; pool != nil {
		s.upstreamClient = pool.Client(payer)
	}
	s.links = g.common.links
	if g.cfg.Link == PerClient || g.cfg.Link == Default {
		s.links = newLinks(g.common.far, memory.AddressOf(payer))
		s.links.spare.Store(1) // many clients send one request on a connection
	}
	if s.links != nil {
		s.linkClient = s.links.Client(payer)
	}
	s.handler = &handler{common: &g.common, session: s}
	s.server = newServer(s.handler, s.onConnState)
	return s
}

// newServer returns a server for HTTP/1.1 with a client.
func newServer(h *handler, changed func(net.Conn, http.ConnState)) *http.Server {
	c := h.cfg
	return &http.Server{
		Handler: h, ConnState: changed,
		MaxHeaderBytes: c.MaxHeader, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		Protocols:                    onlyHTTP1(),
		DisableGeneralOptionsHandler: true, // OPTIONS * goes to the upstream
		ErrorLog:                     h.errorLog,
	}
}

// Run serves the connection until one side closes it or Drain ends it.
func (s *session) Run() {
	defer s.memory.Close()
	if s.upstreamClient != nil {
		defer s.handler.transport.http2.Leave(s.upstreamClient)
	}
	defer s.client.Close()
	if s.links != nil {
		defer s.leaveLinks()
	}
	switch v, ahead := s.detectVersion(); v {
	case versionHTTP1:
		s.lengths.ahead = ahead
		s.serveHTTP1()
	case versionHTTP2:
		s.serveHTTP2(s.client, ahead, s.handler, idleTimeout)
	case versionLink:
		s.serveLink(ahead)
	}
}

// leaveLinks closes the session's links, or leaves those that are shared.
func (s *session) leaveLinks() {
	s.links.Leave(s.linkClient)
	if s.links != s.handler.common.links {
		s.links.close()
	}
}

func (s *session) serveHTTP1() {
	l := newOneConn(s.lengths, s.done)
	_ = s.server.Serve(l)
	if l.conn != nil {
		return // Drain was called before the server had begun
	}
	<-s.done
}

// detectVersion detects the client's protocol, from TLS or from its first bytes. ahead holds the bytes that
// were read.
func (s *session) detectVersion() (v version, ahead []byte) {
	_, isTLS := s.client.(*tls.Conn)
	acceptsLinks := s.handler.cfg.Peers
	if isTLS && !acceptsLinks {
		return versionOf(s.client), nil
	}
	if !s.startDetection() {
		return unknownVersion, nil
	}
	v, ahead = readVersion(s.client, acceptsLinks)
	if isTLS && v != versionLink && v != unknownVersion {
		v = versionOf(s.client)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detecting = false
	_ = s.client.SetReadDeadline(time.Time{})
	return v, ahead
}

// versionOf returns the version of HTTP that was negotiated with TLS.
func versionOf(c net.Conn) version {
	if isHTTP1(c) {
		return versionHTTP1
	}
	return versionHTTP2
}

// startDetection sets the deadline for the client's first bytes. It reports false if the session is ending.
func (s *session) startDetection() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detecting = true
	_ = s.client.SetReadDeadline(time.Now().Add(headerTimeout))
	return !s.stopped
}

// serveHTTP2 serves HTTP/2 on the client's connection, or in a link, until one side ends it.
func (s *session) serveHTTP2(conn net.Conn, ahead []byte, h *handler, idle time.Duration) {
	c := s.handler.cfg
	unread := &memory.Account{}
	unread.Open(s.memory.Requests, nil) // it is the upstream that is waited for, so there is no stall detection
	defer unread.Close()
	frame := 0
	if h.ends != nil {
		frame = http2.LinkFrame
	}
	server := http2.NewServer(conn, http2.ServerConfig{
		Handler: h, MaxStreams: c.MaxStreams, MaxHeader: c.MaxHeader + usualFields, MaxFrame: frame,
		Window: clientWindow, ConnWindow: clientWindow, Memory: unread, IdleTimeout: idle, Date: true, Ahead: ahead,
		Faults: http2.Faults{Log: c.Log, Stats: c.Stats},
		// Without the server the reverse proxy would end a truncated reply as if it were complete.
		Context: context.WithValue(context.Background(), http.ServerContextKey, s.server),
	})
	s.mu.Lock()
	s.http2 = server
	over := s.stopped
	s.mu.Unlock()
	if over {
		server.Drain()
	}
	if err := server.Serve(); err != nil {
		s.handler.errorLog.Printf("closed the HTTP/2 connection of client %s: %v", s.memory.Addr, err)
	}
}

// Drain ends the connection after the next reply, which announces that. If there is none within the grace
// period the server ends the connection too, after the exchanges in flight.
func (s *session) Drain() {
	s.mu.Lock()
	s.drained = true
	s.mu.Unlock()
	time.AfterFunc(s.grace, s.shutDown)
}

func (s *session) isDrained() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drained
}

func (s *session) shutDown() {
	defer gateway.CatchPanic(s.handler.cfg.Log, s.handler.cfg.Stats, func() { _ = s.client.Close() })
	if http2Server := s.stopServers(); http2Server != nil {
		http2Server.Drain()
	}
	go s.shutDownServer(s.server)
}

// stopServers prevents servers from beginning, and returns that of HTTP/2 if it has begun.
func (s *session) stopServers() *http2.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	if s.detecting {
		_ = s.client.SetReadDeadline(time.Now().Add(gateway.BeginPatience))
	}
	return s.http2
}

func (s *session) shutDownServer(server *http.Server) {
	defer gateway.CatchPanic(s.handler.cfg.Log, s.handler.cfg.Stats, func() { _ = s.client.Close() })
	_ = server.Shutdown(context.Background())
}

func (s *session) end() { s.endOnce.Do(func() { close(s.done) }) }

func (s *session) onConnState(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateClosed:
		s.end()
	case http.StateHijacked:
		s.hijacked.Store(true)
	}
}

// oneConn is a listener that accepts one connection.
type oneConn struct {
	conn    net.Conn // nil once it has been accepted
	done    <-chan struct{}
	closing sync.Once
	closed  chan struct{}
}

func newOneConn(c net.Conn, done <-chan struct{}) *oneConn {
	return &oneConn{conn: c, done: done, closed: make(chan struct{})}
}

// Accept returns the connection. Further calls block until the connection is done or the listener is closed.
func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	select {
	case <-l.done:
	case <-l.closed:
	}
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error {
	l.closing.Do(func() { close(l.closed) })
	return nil
}

func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

const (
	// clientWindow limits the bytes of a body that a client may send over HTTP/2 before the gateway has read them. All
	// bodies of a connection together may have as many without memory from the budget.
	clientWindow = 1 << 20
	// usualFields is the size that HTTP/2 counts for ten fields beside their names and values, in bytes (RFC
	// 9113, section 6.5.2).
	usualFields = 10 * 32
)

// version is the HTTP that a client speaks.
type version uint8

const (
	unknownVersion version = iota
	versionHTTP1
	versionHTTP2
	versionLink // with HTTP/2 inside
)

// readVersion reads only as many bytes as it needs to know whether a client begins with the preface of
// HTTP/2, or with the hello of a link, if links are accepted.
func readVersion(c net.Conn, links bool) (version, []byte) {
	preface := make([]byte, len(xhttp2.ClientPreface))
	for n := 0; n < len(preface); {
		more, err := c.Read(preface[n:])
		n += more
		switch {
		case n > 0 && links && peer.BeginsHello(preface[:1]):
			return versionLink, preface[:n]
		case string(preface[:n]) != xhttp2.ClientPreface[:n]:
			return versionHTTP1, preface[:n]
		case err != nil:
			return unknownVersion, nil
		}
	}
	return versionHTTP2, preface
}
