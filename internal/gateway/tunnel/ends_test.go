package tunnel

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/peer"
	"github.com/cinch-layer/cinch/test/testenv"
)

// seen connects to addr, sends nothing, and returns the error with which connecting or reading ends.
func seen(addr string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(3 * time.Minute))
	_, err = io.Copy(io.Discard, c)
	return err
}

// relay forwards connections, and can cut them.
type relay struct {
	addr string
	mu   sync.Mutex
	all  []net.Conn
}

func newRelay(t *testing.T, to string) *relay {
	r := &relay{}
	r.addr = server(t, func(c *net.TCPConn) {
		up, err := net.Dial("tcp", to)
		if err != nil {
			_ = c.Close()
			return
		}
		r.mu.Lock()
		r.all = append(r.all, c, up)
		r.mu.Unlock()
		var both sync.WaitGroup
		both.Go(func() { _, _ = io.Copy(up, c); _ = up.(*net.TCPConn).CloseWrite() })
		both.Go(func() { _, _ = io.Copy(c, up); _ = c.CloseWrite() })
		both.Wait()
		_ = c.Close()
		_ = up.Close()
	})
	return r
}

// cut closes all connections: with a reset, or with a FIN.
func (r *relay) cut(reset bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.all {
		if reset {
			_ = c.(*net.TCPConn).SetLinger(0)
		}
		_ = c.Close()
	}
	r.all = nil
}

// When a link is lost, client and server read a reset and not an EOF.
func TestLostLink(t *testing.T) {
	for name, reset := range map[string]bool{"reset": true, "end": false} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan error, 1)
			exit := serve(t, server(t, func(c *net.TCPConn) {
				defer c.Close()
				_, err := io.Copy(c, c)
				ended <- err
			}), true, nil)
			link := newRelay(t, exit.addr)
			entry := serve(t, link.addr, false, nil)
			c := dial(t, entry.addr)
			exchange(t, c, []byte("hello, is there anybody"))
			link.cut(reset)
			if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the client got %d bytes and %v", n, err)
			}
			if err := <-ended; !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the server got %v", err)
			}
			exchange(t, dial(t, entry.addr), []byte("new connections get new links"))
			if n := entry.stats.Snapshot().Errors["link_lost"]; n != 1 {
				t.Errorf("%d links lost", n)
			}
		})
	}
}

// Each direction can be closed without the other.
func TestHalfClose(t *testing.T) {
	entry, _ := pair(t, server(t, func(c *net.TCPConn) {
		defer c.Close()
		got, err := io.ReadAll(c) // returns at the client's half-close, before any reply
		if err == nil {
			_, _ = c.Write(bytes.ToUpper(got))
		}
	}), nil)
	c := dial(t, entry.addr)
	if _, err := c.Write([]byte("request")); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); string(got) != "REQUEST" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nowhere := l.Addr().String()
	_ = l.Close()
	refused := func(addr string) {
		t.Helper()
		for range 5 {
			if err := seen(addr); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("a client saw %v", err)
			}
		}
	}
	lines := func(e *end, text string) int { return strings.Count(e.log.String(), text) }

	alone := serve(t, nowhere, false, nil)
	refused(alone.addr)
	if n := lines(alone, "no link to the exit"); n != 1 {
		t.Errorf("%d lines about a missing exit", n)
	}
	entry, exit := pair(t, nowhere, nil)
	refused(entry.addr)
	if n := lines(exit, `msg="upstream unreachable`); n != 1 {
		t.Errorf("%d lines about a missing upstream", n)
	}
	if lines(entry, "does not reach its upstream") == 0 {
		t.Error("no line about an exit without upstream")
	}
}

// Both ends need the same key, or none. Otherwise clients are refused, and the logs of both say why.
func TestKeys(t *testing.T) {
	key := func(k string) func(*Config) { return func(c *Config) { c.Key = []byte(k) } }
	none := func(*Config) {}
	exit := serve(t, server(t, echo), true, key("a key of both ends"))
	c := dial(t, serve(t, exit.addr, false, key("a key of both ends")).addr)
	_, _ = c.Write([]byte("ping"))
	_ = c.CloseWrite()
	if got, err := io.ReadAll(c); err != nil || string(got) != "ping" {
		t.Errorf("%q, %v", got, err)
	}
	for name, change := range map[string][2]func(*Config){
		"different":    {key("a key of the exit"), key("a key of the entry")},
		"of the exit":  {key("a key of the exit"), none},
		"of the entry": {none, key("a key of the entry")},
	} {
		exit := serve(t, server(t, echo), true, change[0])
		entry := serve(t, exit.addr, false, change[1])
		if err := seen(entry.addr); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: %v", name, err)
		}
		for _, e := range []*end{entry, exit} {
			waitFor(t, func() bool { return e.stats.Snapshot().Errors["bad_key"] > 0 })
			waitFor(t, func() bool { return strings.Contains(e.log.String(), "peer_key_file") })
		}
	}
}

// A link over TLS that is lost, even within a record, is not logged as a peer's error.
func TestLostTLSLink(t *testing.T) {
	ca := testenv.NewAuthority(t)
	exit := serve(t, server(t, echo), true, func(c *Config) { c.TLS = ca.Issue(t, "exit").TLS(t) })
	lossy := server(t, func(c *net.TCPConn) {
		defer c.Close()
		up, err := net.Dial("tcp", exit.addr)
		if err != nil {
			return
		}
		defer up.Close()
		go func() { _, _ = io.Copy(c, up) }()
		_, _ = io.CopyN(up, c, 30_001)
	})
	entry := serve(t, lossy, false, func(c *Config) { c.Upstream.TLS = &tls.Config{RootCAs: ca.Pool, ServerName: "127.0.0.1"} })
	c := dial(t, entry.addr)
	go func() {
		noise := make([]byte, 1<<20)
		rng := rand.New(rand.NewPCG(4, 4))
		for i := range noise {
			noise[i] = byte(rng.Uint32())
		}
		_, _ = c.Write(noise)
	}()
	if _, err := io.Copy(io.Discard, c); err == nil {
		t.Error("the client saw an ordinary end")
	}
	for _, e := range []*end{entry, exit} {
		waitFor(t, func() bool { return e.stats.Snapshot().Connections.Open == 0 })
		if errs := e.stats.Snapshot().Errors; errs["truncated"] > 0 || strings.Contains(e.log.String(), "invalid frame") {
			t.Errorf("%s counted %v", e.cfg.Name, errs)
		}
	}
	if n := exit.stats.Snapshot().Errors["link_lost"]; n != 1 {
		t.Errorf("the exit lost %d links", n)
	}
}

// alone runs a session of an entry in a synctest bubble. Its client and exit are the far ends of connections
// in memory. The exit has sent its hello, and the link is open. ran is closed when the session has ended.
func alone(t *testing.T) (client, exit net.Conn, ran <-chan struct{}) {
	t.Helper()
	local, client := testenv.Pipe()
	conn, exit := testenv.Pipe()
	g := NewGateway(Config{Name: "entry", Engine: codec.New(codec.Options{}), Stats: gateway.NewStats("entry", "tunnel")})
	_, _ = exit.Write(wire.Hello{Lowest: 1, Highest: 1, Codecs: 1}.Append(nil))
	l, err := g.links.Greet(conn)
	if err == nil {
		err = l.Open()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(exit, make([]byte, wire.HelloLen+1)); err != nil {
		t.Fatal(err)
	}
	s, over := newSession(g, local, l), make(chan struct{})
	go func() { defer close(over); s.Run() }()
	t.Cleanup(func() {
		_, _ = client.Close(), exit.Close()
		<-over
		g.links.Close()
	})
	return client, exit, over
}

// writeUntilStuck writes until a write has not finished within a second.
func writeUntilStuck(c net.Conn, b []byte) {
	for err := error(nil); err == nil; {
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		_, err = c.Write(b)
	}
	_ = c.SetWriteDeadline(time.Time{})
}

// The session of a client that is gone ends even while the exit does not read the client's data.
func TestGoneBeforeStuckLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, exit, ran := alone(t)
		writeUntilStuck(client, make([]byte, 1<<20))
		_ = client.Close()
		_, _ = exit.Write(append(wire.AppendRaw(nil, 5), "hello"...)) // the entry fails to write this to the client
		<-ran
	})
}

// The session of a client that reads nothing ends when its link is lost: the client may be waiting for the
// gateway to read first.
func TestLostBehindStuckClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, exit, ran := alone(t)
		writeUntilStuck(exit, append(wire.AppendRaw(nil, wire.MaxRaw), make([]byte, wire.MaxRaw)...))
		_ = exit.Close()
		_, _ = client.Write([]byte("hello")) // the entry fails to write this to the link
		<-ran
	})
}

// No goroutine is left, however connections end.
func TestNothingStays(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("ends", func(t *testing.T) {
		exit := serve(t, server(t, func(c *net.TCPConn) {
			_, _ = io.CopyN(c, c, 40_000)
			_ = c.Close()
		}), true, func(c *Config) { c.OpenTimeout = time.Second })
		link := newRelay(t, exit.addr)
		entry := serve(t, link.addr, false, func(c *Config) { c.Links = 4 })
		chunk := newSpeech(5).next(30_000)
		for i := range 60 {
			c := dial(t, entry.addr)
			_, _ = c.Write(chunk)
			switch i % 6 {
			case 0:
				_ = c.SetLinger(0)
				_ = c.Close()
			case 1:
				_ = c.CloseWrite()
			case 2:
				link.cut(true)
			case 3:
				link.cut(false)
			case 4:
				_, _ = c.Write(chunk)
				_, _ = io.Copy(io.Discard, c)
			}
			if i%2 == 0 {
				_ = c.Close()
			}
		}
	})
	waitFor(t, func() bool { return runtime.NumGoroutine() <= before })
}
