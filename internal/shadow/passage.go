package shadow

import (
	"errors"
	"io"
	"net"
	"sync"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// passageBytes is what a passage reads at once.
const passageBytes = 32 << 10

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
