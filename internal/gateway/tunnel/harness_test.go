package tunnel

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/peer"
	"github.com/cinch-layer/cinch/test/testenv"
)

// end is one running gateway.
type end struct {
	*Gateway
	addr  string
	stats *gateway.Stats
	log   *testenv.Log
}

// serve starts one end in front of upstream. change may change its configuration.
func serve(t testing.TB, upstream string, exit bool, change func(*Config)) *end {
	t.Helper()
	up, err := endpoint.ParseUpstream(upstream, "")
	if err != nil {
		t.Fatal(err)
	}
	e := &end{log: &testenv.Log{}}
	name := "entry"
	if exit {
		name = "exit"
	}
	e.stats = gateway.NewStats(name, "tunnel")
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
		if s := e.links.State(); s.Used != 0 || s.Promised != 0 || s.Unused != 0 {
			t.Errorf("%s: of histories %d bytes are held, %d promised and %d of them not used, without a connection", name, s.Used, s.Promised, s.Unused)
		}
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, e.log)
		}
	})
	return e
}

// pair starts both ends in front of a server. change may change both configurations.
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
	testenv.AcceptEach(t, l, func(c net.Conn) { handle(c.(*net.TCPConn)) })
	return l.Addr().String()
}

// echo sends back what it reads, and then ends.
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

// opened sends a hello to an exit, as an entry that can decompress everything, and opens the link.
func opened(t testing.TB, addr string) net.Conn {
	t.Helper()
	c := dial(t, addr)
	if _, err := c.Write(append(hello(17).Append(nil), byte(wire.Open))); err != nil {
		t.Fatal(err)
	}
	if _, err := readHello(c); err != nil {
		t.Fatal(err)
	}
	return c
}

// hello returns the hello of a peer that can decompress everything, with a window of 1<<window bytes.
func hello(window byte) wire.Hello {
	return wire.Hello{Lowest: wire.Version, Highest: wire.Version, Codecs: 0xffff, Window: window}
}

// readHello reads a hello without extensions.
func readHello(c io.Reader) (wire.Hello, error) {
	b := make([]byte, wire.HelloLen)
	if _, err := io.ReadFull(c, b); err != nil {
		return wire.Hello{}, err
	}
	return wire.ParseHello(b)
}

func waitFor(t testing.TB, done func() bool) {
	t.Helper()
	testenv.Eventually(t, "it happens", done)
}

// exchange sends a message and requires it back before anything else is sent.
func exchange(t *testing.T, c io.ReadWriter, message []byte) {
	t.Helper()
	if _, err := c.Write(message); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(message))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, message) {
		t.Fatalf("%d bytes did not come back: %v", len(message), err)
	}
}
