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

// firstBytesTimeout limits the wait for a client's first bytes, which distinguish a link from a MongoDB client.
const firstBytesTimeout = 10 * time.Second

// firstBytes is the number of these bytes. In a link's hello they would be the length of a message far above
// wire.MaxMessage.
const firstBytes = 4

// newPeerSession returns the session of a new connection: that of a link if the peer is a near gateway, otherwise that
// of a client. It returns nil if the peer has not sent firstBytes in time.
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

// linkSession serves a link from a near gateway. The link carries HTTP/2, with a stream for each client connection.
type linkSession struct {
	g      *Gateway
	server *http2.Server
	unread *memory.Account
	link   net.Conn
}

// newLinkSession answers the hello of a near gateway, whose first bytes have been read. It returns nil if the handshake
// fails, or if the link is not for MongoDB.
func (g *Gateway) newLinkSession(conn net.Conn, first []byte) gateway.Session {
	c, err := g.endpoint.Accept(conn, first)
	if err != nil {
		return nil
	}
	if err := checkLink(c); err != nil {
		g.endpoint.Disconnected("link refused: the near gateway is for another protocol, or another version of Cinch", conn, err)
		_ = c.Close()
		return nil
	}
	s := &linkSession{g: g, link: c, unread: &memory.Account{}}
	s.unread.Open(g.requests.Client(gateway.BudgetAddress(conn)), nil) // no stall detection: the unread bytes wait for the server, not for the peer
	s.server = http2.NewServer(http2.KeepSecrets(c.(http2.SecretConn)), http2.ServerConfig{
		Handler: http.HandlerFunc(s.serveStream), MaxStreams: maxStreams, MaxHeader: linkHeader, MaxFrame: http2.LinkFrame,
		Window: farWindow, ConnWindow: farConnWindow, Memory: s.unread, IdleTimeout: linkIdle + time.Minute, // so that the near gateway closes idle links first
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

// Drain refuses new streams. The gateway's server drains the streams' sessions.
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
