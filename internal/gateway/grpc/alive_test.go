package grpc

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// deafened forwards connections to a server until it is told to keep them open and forward
// nothing any more, as a network does that lost a machine.
func deafened(t *testing.T, server string) (addr string, deaf *atomic.Bool) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	deaf = new(atomic.Bool)
	forward := func(to, from net.Conn, old func() bool) {
		defer from.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := from.Read(buf)
			if err != nil {
				_ = to.Close()
				return
			}
			if !old() {
				_, _ = to.Write(buf[:n])
			}
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", server)
			if err != nil {
				_ = c.Close()
				continue
			}
			born := deaf.Load() // those that come after it work
			old := func() bool { return !born && deaf.Load() }
			go forward(up, c, old)
			go forward(c, up, old)
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String(), deaf
}

// A server that is gone without a word is noticed by the calls that wait for it, which get
// UNAVAILABLE, and new calls go over a new connection.
func TestSilentDeathIsNoticed(t *testing.T) {
	t.Parallel()
	addr, deaf := deafened(t, startServer(t, echo))
	g := startGateway(t, "grpc://"+addr, nil)
	g.pool.dialer.pings = pings{every: 5 * time.Millisecond, silent: 50 * time.Millisecond, answer: 2 * time.Second, apart: time.Hour}
	c := connect(t, g.addr, grpc.WithDisableRetry())
	s := stream(within(t), t, c, "Both")
	exchange(t, s)
	deaf.Store(true)
	_, err := unary(within(t), c, "Unary", payload(100))
	if status.Code(err) != codes.Unavailable {
		t.Errorf("a call that nobody answers: %v", err)
	}
	var out []byte
	if err := s.RecvMsg(&out); status.Code(err) != codes.Unavailable || status.Convert(err).Message() != "cinch: "+errSilent.Error() {
		t.Errorf("a stream: %v", err)
	}
	mustEcho(t, c, payload(100))
}

// Quiet streams are not taken for dead, and the pings on them are few enough for a server
// with grpc-go's own rules about them.
func TestQuietStreamsLive(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "grpc://"+startServer(t, echo), nil)
	g.pool.dialer.pings = pings{every: time.Millisecond, silent: 5 * time.Millisecond, answer: time.Minute, apart: time.Hour}
	s := stream(within(t), t, connect(t, g.addr), "Both")
	for range 3 {
		exchange(t, s)
		time.Sleep(150 * time.Millisecond)
	}
	exchange(t, s)
	time.Sleep(50 * time.Millisecond) // idle connections are left alone
}
