package tunnel

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/tunnel"
)

// lateConn is a link whose peer has seen a FIN, and acted, before the write of it returns.
type lateConn struct{ *net.TCPConn }

func (c lateConn) Write(b []byte) (int, error) {
	n, err := c.TCPConn.Write(b)
	if len(b) == 1 && wire.Kind(b[0]) == wire.Fin {
		time.Sleep(200 * time.Millisecond)
	}
	return n, err
}

// tcpPair returns both sides of one connection.
func tcpPair(t *testing.T) (a, b *net.TCPConn) {
	t.Helper()
	accepted := make(chan *net.TCPConn, 1)
	a = dial(t, server(t, func(c *net.TCPConn) { accepted <- c }))
	b = <-accepted
	t.Cleanup(func() { _ = b.Close() })
	return a, b
}

// A peer that has both ends closes the link at once. That is no lost link, even if it is seen
// before the own end is known to be sent: what the local side hasn't read yet still arrives.
func TestPeerClosesAfterFin(t *testing.T) {
	client, local := tcpPair(t)
	peer, conn := tcpPair(t)
	_ = client.SetReadBuffer(4 << 10)
	_ = local.SetWriteBuffer(1 << 20)
	g := NewGateway(Config{Name: "exit", Exit: true, Engine: codec.New(codec.Options{}), Stats: gateway.NewStats("exit", "tunnel")})
	gateway.ResetWhenCut(local, true)
	go func() { _, _ = peer.Write(append(hello(0).Append(nil), byte(wire.Open))) }()
	l, err := g.links.Answer(lateConn{conn}, nil, time.Minute)
	if err == nil {
		_, err = readHello(peer)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(g, local, l)
	ran := make(chan struct{})
	go func() { defer close(ran); s.Run() }()

	const size, block = 120_000, 2 << 10 // the link's speed isn't told of frames as small as that
	send := append(wire.AppendRaw(nil, block), make([]byte, block)...)
	said := 0
	for ; said < size; said += block {
		if _, err := peer.Write(send); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := peer.Write([]byte{byte(wire.Fin)}); err != nil {
		t.Fatal(err)
	}
	_ = client.CloseWrite()
	if fin, err := io.ReadAll(io.LimitReader(peer, 1)); err != nil || len(fin) != 1 || wire.Kind(fin[0]) != wire.Fin {
		t.Fatalf("%x, %v instead of a FIN", fin, err)
	}
	_ = peer.CloseWrite()
	<-ran
	_ = client.SetReadBuffer(1 << 20)
	if got, err := io.ReadAll(client); len(got) != said || err != nil {
		t.Errorf("%d of %d bytes arrived, then %v", len(got), said, err)
	}
	if n := g.cfg.Stats.Snapshot().Errors["link_lost"]; n != 0 {
		t.Errorf("%d links lost", n)
	}
}
