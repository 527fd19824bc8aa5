package http

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/held"
)

// session is a client's connection. It has a server of its own, which can be drained alone.
type session struct {
	client net.Conn
	held   *held.Allowance
	server *http.Server

	taken atomic.Bool // the connection was taken over from the server
	over  sync.Once
	done  chan struct{} // closed when the server has closed the connection, or who took it over has
}

func newSession(g *Gateway, client net.Conn) gateway.Session {
	payer := gateway.PayerOf(client)
	s := &session{
		client: client, done: make(chan struct{}),
		held: held.NewAllowance(client.RemoteAddr(), g.requests.Client(payer), g.replies.Client(payer)),
	}
	h := &handler{common: &g.common, session: s}
	s.server = &http.Server{
		Handler: h, ConnState: s.changed,
		MaxHeaderBytes: g.cfg.MaxHeader, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		HTTP2:                        &http.HTTP2Config{MaxConcurrentStreams: g.cfg.MaxStreams},
		Protocols:                    allProtocols(),
		DisableGeneralOptionsHandler: true, // OPTIONS * is the upstream's
		ErrorLog:                     log.New(io.Discard, "", 0),
	}
	return s
}

func allProtocols() *http.Protocols {
	p := &http.Protocols{}
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// Run serves the connection until one side closes it or Drain ends it.
func (s *session) Run() {
	defer s.held.Close()
	defer s.client.Close()
	_ = s.server.Serve(&oneConn{conn: s.client, done: s.done})
	<-s.done
}

// Drain lets the server finish what is in flight.
func (s *session) Drain() { go func() { _ = s.server.Shutdown(context.Background()) }() }

func (s *session) end() { s.over.Do(func() { close(s.done) }) }

func (s *session) changed(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateClosed:
		s.end()
	case http.StateHijacked:
		s.taken.Store(true)
	}
}

// oneConn is a listener to which one connection comes.
type oneConn struct {
	conn net.Conn // nil: it has been accepted
	done <-chan struct{}

	closing sync.Once
	closed  chan struct{}
	mu      sync.Mutex
}

func (l *oneConn) wait() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed == nil {
		l.closed = make(chan struct{})
	}
	return l.closed
}

// Accept returns the connection, and then nothing until that is done with.
func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	select {
	case <-l.done:
	case <-l.wait():
	}
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error {
	l.closing.Do(func() { close(l.wait()) })
	return nil
}

func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }
