package grpc

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/test/testenv"
)

// deafened forwards connections to a server until deaf is set. Then it keeps them open and forwards nothing
// more, like a network that has lost a machine.
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
			born := deaf.Load() // later connections work
			old := func() bool { return !born && deaf.Load() }
			go forward(up, c, old)
			go forward(c, up, old)
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String(), deaf
}

// Calls that wait for a server that has vanished end with UNAVAILABLE, and new calls use a new connection.
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
		t.Errorf("a call without an answer: %v", err)
	}
	var out []byte
	if err := s.RecvMsg(&out); status.Code(err) != codes.Unavailable || status.Convert(err).Message() != "cinch: "+errSilent.Error() {
		t.Errorf("a stream: %v", err)
	}
	mustEcho(t, c, payload(100))
}

// Quiet streams are not taken for dead, and the pings on them are few enough for grpc-go's default rules.
func TestQuietStreamsLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(func(_ any, s grpc.ServerStream) error {
			for range 3 {
				if err := s.SendMsg(&[]byte{'x'}); err != nil {
					return err
				}
				time.Sleep(time.Hour)
			}
			return nil
		})
		behind := testenv.NewPipeListener()
		go func() { _ = server.Serve(behind) }()
		defer server.Stop()
		p := newGateway(t, "grpc://server:1", nil).pool
		defer p.Close()
		counter := &pingCounter{}
		p.dialer.open = func(context.Context) (_ net.Conn, err error) {
			counter.Conn, err = behind.Dial()
			return counter, err
		}
		var s http2.Slot
		h, err := p.Take(t.Context(), &s)
		if err != nil {
			t.Fatal(err)
		}
		call := func() {
			t.Helper()
			r := newRequest(t.Context(), t)
			r.Header.Set("Content-Type", "application/grpc")
			r.Body = nil
			resp, err := h.Conn.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(&countedBody{resp.Body, h})
			if status := resp.Trailer.Get("Grpc-Status"); err != nil || status != "0" || len(got) != 3*6 {
				t.Fatalf("%d bytes, %v, status %q %s", len(got), err, status, resp.Trailer.Get("Grpc-Message"))
			}
		}
		call()
		during := counter.pings.Load()
		if during < 3*(freePings+50/6) {
			t.Errorf("%d pings in three hours", during)
		}
		p.Release(&s)
		time.Sleep(time.Hour)
		if n := counter.pings.Load() - during; n > 0 {
			t.Errorf("%d pings on an idle connection", n)
		}
		if again, err := p.Take(t.Context(), &s); err != nil || again != h {
			t.Fatalf("another connection, %v: the server has ended the first", err)
		}
		call()
		p.Release(&s)
	})
}

// pingCounter counts the pings that are written to a connection.
type pingCounter struct {
	net.Conn
	pings atomic.Int64
}

func (c *pingCounter) Write(b []byte) (int, error) {
	if isPing := []byte{0, 0, 8, byte(xhttp2.FramePing), 0, 0, 0, 0, 0}; bytes.Contains(b, isPing) {
		c.pings.Add(1)
	}
	return c.Conn.Write(b)
}
