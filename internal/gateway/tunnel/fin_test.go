package tunnel

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/peer"
	"github.com/cinch-layer/cinch/test/testenv"
)

// lateConn is the connection of a link in a synctest bubble. It delays the return from writing a FIN until the
// peer has read the FIN and reacted.
type lateConn struct {
	net.Conn
	left    int           // bytes still to be read
	handled chan struct{} // closed when all of them have been handled
}

func (c *lateConn) CloseWrite() error { return gateway.CloseWrite(c.Conn) }

// Read relies on being called only after all bytes read before have been handled.
func (c *lateConn) Read(b []byte) (int, error) {
	if c.left == 0 {
		close(c.handled)
	}
	n, err := c.Conn.Read(b)
	c.left -= n
	return n, err
}

func (c *lateConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if len(b) == 1 && wire.Kind(b[0]) == wire.Fin {
		time.Sleep(time.Second) // in the bubble, until all other goroutines are blocked
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

// A peer that has seen both ends closes the link at once. That is no lost link, even if the close is detected
// before the session knows that its own FIN was sent. Data that the local side has not read yet still
// arrives.
func TestPeerClosesAfterFin(t *testing.T) {
	client, local := tcpPair(t)
	_ = client.SetReadBuffer(4 << 10)
	_ = local.SetWriteBuffer(1 << 20)
	gateway.SetResetOnClose(local, true)
	synctest.Test(t, func(t *testing.T) {
		conn, peer := testenv.Pipe()
		g := NewGateway(Config{Name: "exit", Exit: true, Engine: codec.New(codec.Options{}), Stats: gateway.NewStats("exit", "tunnel")})
		defer g.links.Close()
		const blocks, block = 60, 2 << 10 // frames this small are not used to measure the link's speed
		open, send := append(hello(0).Append(nil), byte(wire.Open)), append(wire.AppendRaw(nil, block), make([]byte, block)...)
		_, _ = peer.Write(open)
		late := &lateConn{Conn: conn, left: len(open) + blocks*len(send) + 1, handled: make(chan struct{})}
		l, err := g.links.Answer(late, nil, time.Minute)
		if err == nil {
			_, err = readHello(peer)
		}
		if err != nil {
			t.Fatal(err)
		}
		s := newSession(g, local, l)
		ran := make(chan struct{})
		go func() { defer close(ran); s.Run() }()

		for range blocks {
			if _, err := peer.Write(send); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := peer.Write([]byte{byte(wire.Fin)}); err != nil {
			t.Fatal(err)
		}
		<-late.handled
		_ = client.CloseWrite()
		if fin, err := io.ReadAll(io.LimitReader(peer, 1)); err != nil || len(fin) != 1 || wire.Kind(fin[0]) != wire.Fin {
			t.Fatalf("%x, %v instead of a FIN", fin, err)
		}
		_ = gateway.CloseWrite(peer)
		<-ran
		_ = client.SetReadBuffer(1 << 20)
		if got, err := io.ReadAll(client); len(got) != blocks*block || err != nil {
			t.Errorf("%d of %d bytes arrived, then %v", len(got), blocks*block, err)
		}
		if n := g.cfg.Stats.Snapshot().Errors["link_lost"]; n != 0 {
			t.Errorf("%d links lost", n)
		}
	})
}
