package shadow

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// passageBytes is what a passage reads at once.
const passageBytes = 32 << 10

// entrance connects clients to production, past a tap.
type entrance struct {
	production  gateway.Upstream
	tap         *Tap
	log         *slog.Logger
	connections atomic.Uint64
}

// session connects a client to production; nil when that is not reached.
func (e *entrance) session(client net.Conn) gateway.Session {
	up, err := e.production.Dial(context.Background())
	if err != nil {
		e.log.Warn("production not reached, client disconnected", "err", err)
		return nil
	}
	return &passage{tapped: tapped{number: e.connections.Add(1)}, client: client, upstream: up, tap: e.tap}
}

// passage carries a client's connection to production and back, whatever becomes of the
// mirror.
type passage struct {
	tapped
	client   net.Conn
	upstream net.Conn
	tap      *Tap
	closing  sync.Once
}

// Run carries bytes until both sides are done.
func (p *passage) Run() {
	defer p.tap.end(&p.tapped)
	defer p.Close()
	var replies sync.WaitGroup
	replies.Go(func() {
		if err := p.carry(p.client, p.upstream, gateway.FromUpstream); err != nil {
			_ = p.Close()
		}
	})
	if err := p.carry(p.upstream, p.client, gateway.FromClient); err != nil {
		_ = p.Close()
	}
	replies.Wait()
}

// carry moves bytes from src to dst until src ends, and then ends dst.
func (p *passage) carry(dst, src net.Conn, from gateway.Peer) error {
	var buf []byte
	for {
		var n int
		var err error
		buf, n, err = gateway.ReadNext(src, buf, passageBytes)
		if errors.Is(err, io.EOF) {
			return gateway.CloseWrite(dst)
		}
		if err != nil {
			return err
		}
		p.tap.put(&p.tapped, from, buf[:n])
		if _, err = dst.Write(buf[:n]); err != nil {
			gateway.PutBuffer(buf)
			return err
		}
	}
}

// Drain ends the connection: a passage does not know when it is idle.
func (p *passage) Drain() { _ = p.Close() }

// Close cuts both connections.
func (p *passage) Close() error {
	p.closing.Do(func() {
		_ = gateway.Abort(p.client)
		_ = gateway.Abort(p.upstream)
	})
	return nil
}
