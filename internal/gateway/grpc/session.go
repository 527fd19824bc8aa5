package grpc

//lint:file-ignore SA1019 http.Server closes idle HTTP/2 connections at Shutdown instead of
// saying GOAWAY and waiting, and serves no accepted connection; x/net's server does both.

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/held"

	"golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/grpc/lanes"
)

// session is a client's connection.
type session struct {
	client net.Conn
	pool   *pool // connections to the upstream
	own    bool  // no other session uses pool
	base   *http.Server
	server *http2.Server
	peer   *peer           // what the client says as a gateway; nil: it is none
	ends   *lanes.Ends     // of the link that the client's connection is; nil: it has no lanes
	memory *held.Allowance // the client's
	done   chan struct{}   // closed when Run returns

	calls underway
	grace time.Duration   // of a drain, for streams that are quiet
	last  <-chan struct{} // closed when calls are to end
}

func newSession(g *Gateway, client net.Conn) gateway.Session {
	c := &g.cfg
	addr, payer := client.RemoteAddr(), gateway.PayerOf(client)
	var ahead []byte
	carried := false
	var ends *lanes.Ends
	if g.links != nil && c.Peers {
		if client, ahead, carried = meetLink(g.links, client); client == nil {
			return nil
		}
	}
	if carried {
		ends = g.lanesOf(client)
	}
	batched, batch := newBatchConn(client)
	batch.ahead = ahead
	s := &session{client: batched, pool: g.pool, done: make(chan struct{}), grace: c.Grace, last: g.last, ends: ends}
	s.memory = held.NewAllowance(addr, g.requests.Client(payer), g.replies.Client(payer))
	if c.Peers {
		s.peer = newPeer(g.shared.dicts, s.memory, g.links != nil)
	}
	if s.own = g.links != nil && c.Link == LinkPerClient; s.own {
		s.pool = newPool(g.pool.dialer, c.UpstreamConns)
	}
	s.base = &http.Server{
		Handler:        &handler{shared: &g.shared, calls: &s.calls, memory: s.memory, peer: s.peer, pool: s.pool, carried: carried, ends: ends},
		MaxHeaderBytes: c.MaxHeader,
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	s.server = newServer(s.base, c.Window, c.MaxStreams)
	return s
}

// lanesOf returns the lanes of a client's link.
func (g *Gateway) lanesOf(client net.Conn) *lanes.Ends {
	e := lanesOf(client, g.shared.lanes)
	if e == nil && g.shared.lanes != nil {
		g.oldClient.Do(func() {
			g.cfg.Log.Info("a gateway at the other end of a link knows no lanes, so each message of cinch-proto is taken apart by itself: it is an older version",
				"client", client.RemoteAddr().String())
		})
	}
	return e
}

// Run serves the connection's streams until one side closes it or Drain ends it.
func (s *session) Run() {
	defer close(s.done)
	defer s.memory.Close()
	defer s.client.Close()
	defer s.peer.close()
	defer s.ends.Close()
	if s.own {
		defer s.pool.close()
	}
	s.server.ServeConn(s.client, &http2.ServeConnOpts{BaseConfig: s.base})
}

// Drain says GOAWAY. The server ends the connection after the last stream.
func (s *session) Drain() { go s.drain(s.grace, s.last) }

// drain says GOAWAY until the session is done, ends streams that are quiet for as long as grace, and all calls when last is
// closed.
func (s *session) drain(grace time.Duration, last <-chan struct{}) {
	s.goAway()
	s.calls.endQuiet() // the first look
	tick, look := time.NewTicker(drainAgain), time.NewTicker(max(grace, time.Millisecond))
	defer tick.Stop()
	defer look.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-tick.C:
			s.goAway()
		case <-look.C:
			s.calls.endQuiet()
		case <-last:
			s.calls.endAll()
			last = nil
		}
	}
}

// goAway returns at once: base knows no connection of its own.
func (s *session) goAway() { _ = s.base.Shutdown(context.Background()) }
