package tunnel

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/test/testenv"
)

// end is one running gateway.
type end struct {
	*Gateway
	addr  string
	stats *gateway.Stats
	log   *testenv.Log
}

// serve starts one end to upstream, with what change does to its configuration.
func serve(t testing.TB, upstream string, exit bool, change func(*Config)) *end {
	t.Helper()
	up, err := gateway.ParseUpstream(upstream, "")
	if err != nil {
		t.Fatal(err)
	}
	e := &end{log: &testenv.Log{}}
	name := "entry"
	if exit {
		name = "exit"
	}
	e.stats = gateway.NewStats(name, "tunnel")
	up.Stats = e.stats
	cfg := Config{
		Name: name, Upstream: up, Exit: exit, Setting: codec.Setting{Codec: codec.Zstd, Level: 1},
		Engine: codec.New(codec.Options{}), Stats: e.stats, Log: slog.New(slog.NewTextHandler(e.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&cfg)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e.addr = l.Addr().String()
	e.Gateway = NewGateway(cfg)
	served := make(chan error, 1)
	go func() { served <- e.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_ = e.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		waitFor(t, func() bool { return e.Shutdown(context.Background()) == nil })
		e.history.wantNone(t, name)
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, e.log)
		}
	})
	return e
}

// wantNone checks that nobody has kept anything.
func (h *history) wantNone(t testing.TB, name string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.used != 0 || h.promised != 0 || h.unused != 0 {
		t.Errorf("%s: of histories %d bytes are held, %d promised and %d of them not used, by nobody", name, h.used, h.promised, h.unused)
	}
}

// pair starts both ends in front of a server; change works on both.
func pair(t testing.TB, server string, change func(*Config)) (entry, exit *end) {
	t.Helper()
	exit = serve(t, server, true, change)
	return serve(t, exit.addr, false, change), exit
}

// server accepts connections and gives each to handle, which owns it.
func server(t testing.TB, handle func(*net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { handle(c.(*net.TCPConn)) })
		}
	}()
	return l.Addr().String()
}

// echo sends back what comes, and its end.
func echo(c *net.TCPConn) {
	defer c.Close()
	_, _ = io.Copy(c, c)
	_ = c.CloseWrite()
}

func dial(t testing.TB, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(3 * time.Minute))
	return c.(*net.TCPConn)
}

func waitFor(t testing.TB, done func() bool) {
	t.Helper()
	testenv.Eventually(t, "it happens", done)
}
