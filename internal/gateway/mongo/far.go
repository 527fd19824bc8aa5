package mongo

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// firstBytesTimeout limits the time until a client has sent the first bytes, by which links are known.
const firstBytesTimeout = 10 * time.Second

// firstBytes is the number of those bytes. The length of a message that began like a hello would exceed all limits.
const firstBytes = 4

// newPeerSession returns the session of a connection that is a link of a near gateway, or a client's own.
func (g *Gateway) newPeerSession(client net.Conn) gateway.Session {
	first := make([]byte, firstBytes)
	_ = client.SetReadDeadline(time.Now().Add(firstBytesTimeout))
	if _, err := io.ReadFull(client, first); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			g.cfg.Log.Debug("a client that has sent no message is disconnected", "client", client.RemoteAddr().String())
		}
		return nil
	}
	_ = client.SetReadDeadline(time.Time{})
	if g.endpoint.IsHello(first) {
		return g.newLinkSession(client, first)
	}
	s := g.newSession(client)
	if s, ok := s.(*session); ok {
		s.fromClient.Prepend(first)
	}
	return s
}

// linkSession is the session of a link: HTTP/2, whose streams are clients' connections.
type linkSession struct {
	g      *Gateway
	server *http2.Server
	unread *memory.Account
	link   net.Conn
}

// newLinkSession answers the hello of a near gateway, of which the first bytes were read.
func (g *Gateway) newLinkSession(conn net.Conn, first []byte) gateway.Session {
	c, err := g.endpoint.Accept(conn, first)
	if err != nil {
		return nil
	}
	if err := checkLink(c); err != nil {
		g.endpoint.Disconnected("a near gateway for another protocol, or of another version, disconnected", conn, err)
		_ = c.Close()
		return nil
	}
	s := &linkSession{g: g, link: c, unread: &memory.Account{}}
	s.unread.Open(g.requests.Client(gateway.BudgetAddress(conn)), nil) // it is the server that is waited for, so there is no stall detection
	s.server = http2.NewServer(http2.KeepSecrets(c.(http2.SecretConn)), http2.ServerConfig{
		Handler: http.HandlerFunc(s.serveStream), MaxStreams: maxStreams, MaxHeader: linkHeader, MaxFrame: http2.LinkFrame,
		Window: farWindow, ConnWindow: farConnWindow, Memory: s.unread, IdleTimeout: linkIdle + time.Minute, // the near gateway ends it first
		Faults: http2.Faults{Log: g.cfg.Log, Stats: g.cfg.Stats},
	})
	return s
}

// Run serves the streams of the link until it ends.
func (s *linkSession) Run() {
	defer s.unread.Close()
	defer s.link.Close()
	if err := s.server.Serve(); err != nil {
		s.g.cfg.Log.Debug("a near gateway broke HTTP/2 in a link", "peer", s.link.RemoteAddr().String(), "err", err)
	}
}

// Drain refuses new streams. The sessions of the streams are drained by themselves.
func (s *linkSession) Drain() { s.server.Drain() }

// Close implements io.Closer.
func (s *linkSession) Close() error {
	s.server.Close()
	return nil
}

// serveStream serves a client's connection to the near gateway.
func (s *linkSession) serveStream(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "this link carries connections to MongoDB, which are opened by CONNECT", http.StatusMethodNotAllowed)
		return
	}
	c, err := w.(http2.ResponseWriter).Conn()
	if err != nil {
		return
	}
	s.g.server.ServeStream(c, s.g.newSession)
}
