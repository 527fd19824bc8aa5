package shadow

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// proxy connects clients to production through a tap.
type proxy struct {
	production  endpoint.Upstream
	opener      Opener      // nil: all bytes are passed through
	tls         *tls.Config // for the opener
	tap         *Tap
	log         *slog.Logger
	connections atomic.Uint64
}

// encrypt sets up TLS: for all clients of s, or for those that ask the opener for it.
func (e *proxy) encrypt(s *gateway.Server, config *tls.Config) {
	if e.opener == nil {
		s.TLS = config
	} else {
		e.tls = config
	}
}

// session connects a client to production; nil if that failed.
func (e *proxy) session(client net.Conn) gateway.Session {
	p := &proxyConn{clientConn: &clientConn{}, client: client, tap: e.tap}
	if err := e.open(p); err != nil {
		if errors.Is(err, endpoint.ErrUnreachable) {
			e.log.Warn("can't reach production, client disconnected", "err", err)
		} else {
			e.log.Debug("client disconnected before it was connected to production", "client", client.RemoteAddr(), "err", err)
		}
		return nil
	}
	p.number = e.connections.Add(1)
	return p
}

// open opens both connections of a proxied connection.
func (e *proxy) open(p *proxyConn) (err error) {
	if e.opener == nil {
		p.upstream, err = gateway.Dial(context.Background(), e.production, nil)
		return err
	}
	if p.client, p.first, err = e.opener.Open(p.client, e.tls); err == nil {
		p.upstream, err = e.opener.Reach(context.Background(), e.production, p.client, e.tls)
	}
	return err
}

// proxyConn carries a client's connection to production and back, whatever happens to the mirror.
type proxyConn struct {
	*clientConn // separate, since the mirror may need it for longer than the connections
	client      net.Conn
	upstream    net.Conn
	first       []byte // bytes of the client, to be passed on before those that are read
	tap         *Tap
	closing     sync.Once
}

// Run carries bytes until both sides are done.
func (p *proxyConn) Run() {
	defer p.tap.end(p.clientConn)
	defer p.Close()
	var replies sync.WaitGroup
	replies.Go(func() {
		if err := p.carry(p.client, p.upstream, memory.FromUpstream); err != nil {
			_ = p.Close()
		}
	})
	err := p.request()
	if errors.Is(err, gateway.ErrRelayWrite) { // production has closed its connection, and its last message may be unread
		_, err = io.Copy(io.Discard, p.client)
	}
	if err != nil {
		_ = p.Close()
	}
	replies.Wait()
}

// request carries the client's bytes.
func (p *proxyConn) request() error {
	if len(p.first) > 0 {
		p.tap.put(p.clientConn, memory.FromClient, p.first)
		if _, err := p.upstream.Write(p.first); err != nil {
			return gateway.RelayWriteError(err)
		}
	}
	return p.carry(p.upstream, p.client, memory.FromClient)
}

// carry moves bytes from src to dst until src ends, and then ends dst.
func (p *proxyConn) carry(dst, src net.Conn, from memory.Peer) error {
	return gateway.RelayFunc(dst, src, func(b []byte) { p.tap.put(p.clientConn, from, b) })
}

// Drain closes the connection: a proxied connection can't tell when it is idle.
func (p *proxyConn) Drain() { _ = p.Close() }

// Close cuts both connections.
func (p *proxyConn) Close() error {
	p.closing.Do(func() {
		_ = gateway.Abort(p.client)
		_ = gateway.Abort(p.upstream)
	})
	return nil
}
