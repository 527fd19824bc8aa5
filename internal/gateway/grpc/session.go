package grpc

//lint:file-ignore SA1019 http.Server closes idle HTTP/2 connections at Shutdown instead of
// saying GOAWAY and waiting, and serves no accepted connection; x/net's server does both.

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// frameBytes is the size of HTTP/2 frames that we read. It is gRPC's own; larger ones
// would make every stream keep other streams waiting for longer.
const frameBytes = 16 << 10

// session is a client's connection.
type session struct {
	client net.Conn
	pool   *pool // connections to the upstream
	own    bool  // no other session uses pool
	base   *http.Server
	server *http2.Server
	peer   *peer         // what the client says as a gateway; nil: it is none
	memory *client       // the client's
	done   chan struct{} // closed when Run returns
}

func newSession(g *Gateway, client net.Conn) gateway.Session {
	c := &g.cfg
	addr, payer := client.RemoteAddr(), gateway.PayerOf(client)
	client, ahead, carried := g.meetLink(client)
	if client == nil {
		return nil
	}
	gathered, batch := gather(client)
	batch.ahead = ahead
	s := &session{client: gathered, pool: g.pool, memory: g.newClient(addr, payer), done: make(chan struct{})}
	s.peer = g.newPeer(s.memory)
	if s.own = g.links != nil && c.Link == LinkPerClient; s.own {
		s.pool = g.pool.another()
	}
	s.base = &http.Server{
		Handler:        g.handler(s.peer, s.memory, s.pool, carried),
		MaxHeaderBytes: c.MaxHeader,
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	window := max(c.Window, leastWindow)
	s.server = &http2.Server{
		MaxConcurrentStreams:         uint32(c.MaxStreams),
		MaxReadFrameSize:             frameBytes,
		MaxUploadBufferPerStream:     int32(window),
		MaxUploadBufferPerConnection: connWindow(window, c.MaxStreams),
	}
	_ = http2.ConfigureServer(s.base, s.server) // fails on TLS settings, and there are none
	return s
}

// leastWindow is what HTTP/2 lets a client send on a stream before it has heard of our window. x/net's server resets
// streams that make use of that while its window is smaller.
const leastWindow = 65_535

// connWindow is the window of a connection: as much as all its streams may use, so that a
// stream that nobody reads never stops the others.
func connWindow(window, streams int) int32 {
	return int32(min(int64(window)*int64(streams), math.MaxInt32))
}

// Run serves the connection's streams until one side closes it or Drain ends it.
func (s *session) Run() {
	defer close(s.done)
	defer s.memory.close()
	defer s.client.Close()
	defer s.peer.close()
	if s.own {
		defer s.pool.close()
	}
	s.server.ServeConn(s.client, &http2.ServeConnOpts{BaseConfig: s.base})
}

// drainAgain is the time between two attempts to say GOAWAY: the server misses the first
// when it has not begun yet.
const drainAgain = 100 * time.Millisecond

// Drain says GOAWAY. The server ends the connection after the last stream.
func (s *session) Drain() {
	go func() {
		for {
			_ = s.base.Shutdown(context.Background()) // returns at once: it knows no connection of its own
			select {
			case <-s.done:
				return
			case <-time.After(drainAgain):
			}
		}
	}()
}

// withHTTP2 returns a configuration that offers HTTP/2, whichever configuration cfg
// chooses for a client. Those are kept, because each owns the keys of its tickets.
func withHTTP2(cfg *tls.Config) *tls.Config {
	if cfg == nil {
		return nil
	}
	out := cfg.Clone()
	out.NextProtos = []string{http2.NextProtoTLS}
	choose := cfg.GetConfigForClient
	if choose == nil {
		return out
	}
	type made struct{ from, to *tls.Config }
	var last atomic.Pointer[made]
	out.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		chosen, err := choose(hello)
		if chosen == nil || err != nil {
			return nil, err
		}
		if m := last.Load(); m != nil && m.from == chosen {
			return m.to, nil
		}
		m := &made{from: chosen, to: chosen.Clone()}
		m.to.NextProtos = out.NextProtos
		last.Store(m)
		return m.to, nil
	}
	return out
}
