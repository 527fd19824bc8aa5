package tunnel

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	wire "github.com/cinch-layer/cinch/internal/wire/peer"
)

// seen returns the error with which a connection ends for a client that sends nothing. Even connecting may
// fail.
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

// relay is a link that can be cut.
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

// cut closes all connections, by resets or by ordinary ends.
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

// Clients and servers never see a lost link as an ordinary end.
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

// Each direction ends by itself.
func TestHalfClose(t *testing.T) {
	entry, _ := pair(t, server(t, func(c *net.TCPConn) {
		defer c.Close()
		got, err := io.ReadAll(c) // the client's end arrives before anything is answered
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
	if n := lines(entry, "does not reach its upstream"); n != 1 {
		t.Errorf("%d lines about an exit without upstream", n)
	}
}

// An exit refuses anything that is not a hello, counts it, and logs it once.
func TestHostileHello(t *testing.T) {
	exit := serve(t, server(t, echo), true, nil)
	good := hello(17).Append(nil)
	newer := wire.Hello{Lowest: 7, Highest: 9, Codecs: 1}.Append(nil)
	random := make([]byte, 100)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	for name, c := range map[string]struct {
		send  []byte
		class string
	}{
		"random":  {random, "bad_hello"},
		"http":    {[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "bad_hello"},
		"partial": {good[:9], "bad_hello"},
		"version": {newer, "version"},
		"no open": {append(good[:len(good):len(good)], byte(wire.Fin)), "bad_hello"},
	} {
		before := exit.stats.Snapshot().Errors[c.class]
		conn := dial(t, exit.addr)
		if _, err := conn.Write(c.send); err != nil {
			t.Fatal(err)
		}
		if name == "partial" {
			_ = conn.CloseWrite()
		}
		answer, _ := io.ReadAll(conn)
		_ = conn.Close()
		if got := exit.stats.Snapshot().Errors[c.class]; got != before+1 {
			t.Errorf("%s: %d errors of class %s", name, got-before, c.class)
		}
		if name == "version" {
			if len(answer) < wire.HelloLen || wire.Status(answer[11]) != wire.StatusVersion || answer[8] != wire.Version {
				t.Errorf("answer to a newer version: %x", answer)
			}
		}
	}
	if n := strings.Count(exit.log.String(), "not a gateway's hello"); n != 1 {
		t.Errorf("%d lines about strangers", n)
	}
	before := len(exit.log.String())
	_ = dial(t, exit.addr).Close() // a port probe
	waitFor(t, func() bool { return exit.stats.Snapshot().Connections.Open == 0 })
	if text := exit.log.String()[before:]; text != "" {
		t.Errorf("a look at the port is logged: %s", text)
	}
}

// Hostile frames after a proper hello end the connection, on both ends.
func TestHostileFrames(t *testing.T) {
	begin := func(window byte) []byte {
		return append(wire.AppendCoded(nil, wire.Frame{Kind: wire.Begin, Window: window, RawLen: 5}, 3), 1, 2, 3)
	}
	hostile := map[string]struct {
		send  []byte
		class string
	}{
		"kind":         {[]byte{0xff}, "malformed"},
		"open twice":   {[]byte{byte(wire.Open)}, "malformed"},
		"fin twice":    {[]byte{byte(wire.Fin), byte(wire.Fin)}, "malformed"},
		"after fin":    {[]byte{byte(wire.Fin), 0, 1, 'x'}, "malformed"},
		"no stream":    {append(wire.AppendCoded(nil, wire.Frame{Kind: wire.Piece, RawLen: 5}, 3), 1, 2, 3), "malformed"},
		"large window": {begin(23), "malformed"},
		"garbage":      {begin(17), "corrupt"},
		"gzip":         {append(wire.AppendCoded(nil, wire.Frame{Kind: wire.Block, Codec: 7, RawLen: 5}, 3), 1, 2, 3), "malformed"},
		"cut":          {[]byte{0, 100, 'x'}, "link_lost"},
	}
	hostile["wrong sum"] = struct {
		send  []byte
		class string
	}{append(wire.AppendCoded(nil, wire.Frame{Kind: wire.Begin, Window: 17, RawLen: 5}, 8), 0x28, 0, 0, 'h', 'e', 'l', 'l', 'o'), "checksum"}
	for name, c := range hostile {
		t.Run("exit/"+name, func(t *testing.T) {
			over := make(chan struct{})
			defer close(over)
			stays := func(c *net.TCPConn) { // else all may have ended before the bytes behind a FIN were read
				defer c.Close()
				_, _ = io.Copy(c, c)
				<-over
			}
			exit := serve(t, server(t, stays), true, nil)
			conn := dial(t, exit.addr)
			send := append(hello(17).Append(nil), byte(wire.Open))
			if _, err := conn.Write(append(send, c.send...)); err != nil {
				t.Fatal(err)
			}
			_ = conn.CloseWrite()
			_, _ = io.Copy(io.Discard, conn)
			waitFor(t, func() bool { return exit.stats.Snapshot().Errors[c.class] == 1 })
		})
		t.Run("entry/"+name, func(t *testing.T) {
			fake := server(t, func(conn *net.TCPConn) {
				defer conn.Close()
				_, _ = io.ReadFull(conn, make([]byte, wire.HelloLen))
				_, _ = conn.Write(append(hello(17).Append(nil), c.send...))
				_ = conn.CloseWrite()
				_, _ = io.Copy(io.Discard, conn)
			})
			entry := serve(t, fake, false, nil)
			client, err := net.Dial("tcp", entry.addr)
			if err == nil {
				defer client.Close() // not earlier, or all may have ended here too
				_, err = io.Copy(io.Discard, client)
			}
			if ended := strings.Contains(name, "fin"); !ended && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the client saw %v", err)
			}
			waitFor(t, func() bool { return entry.stats.Snapshot().Errors[c.class] == 1 })
		})
	}
}
