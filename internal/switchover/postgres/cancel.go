package postgres

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/switchover/pg"
)

// A client cancels on a separate connection, with the key that the server sent at the client's login. The gateway
// has forwarded that key unchanged, and maps it to the session. After a move it cancels with the key that the new
// server has sent. An unknown key is forwarded unchanged: it may belong to a client of another gateway.

// cancelTime limits one cancellation as a whole.
const cancelTime = 10 * time.Second

// registerKey registers the key with which the client of s cancels.
func (g *Gateway) registerKey(s *session, key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s.key = key
	g.keys[key] = s
}

// forwardCancel forwards a cancellation. It closes the client's connection only after the server has accepted the
// cancellation, because clients wait for that.
func (g *Gateway) forwardCancel(client net.Conn, packet []byte) {
	g.counts.cancels.Add(1)
	up, key := g.cancelKey(string(packet[pg.StartupHeaderBytes:]))
	if err := sendCancel(g.ctx, up, key); err != nil {
		g.cfg.Log.Debug("could not forward a cancellation", "client", client.RemoteAddr(), "err", err)
	}
}

// cancelKey returns the server for a cancellation and the key to use there.
func (g *Gateway) cancelKey(key string) (endpoint.Upstream, string) {
	g.mu.Lock()
	s, up := g.keys[key], g.upstream
	g.mu.Unlock()
	if s == nil {
		return up, key
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.backend.at, s.backend.key
}

func sendCancel(ctx context.Context, up endpoint.Upstream, key string) error {
	ctx, stop := context.WithTimeout(ctx, cancelTime)
	defer stop()
	return endpoint.WithConn(ctx, func(ctx context.Context) (net.Conn, error) { return Dial(ctx, up, nil) }, func(c net.Conn) error {
		if _, err := c.Write(pg.AppendCancel(nil, []byte(key))); err != nil {
			return err
		}
		_, _ = io.CopyN(io.Discard, c, 1) // until the server has closed it
		return nil
	})
}
