package tunnel

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/peer"
	"github.com/cinch-layer/cinch/test/testenv"
)

// Hellos of other versions, with extensions, and in pieces.
func TestStrangeHellos(t *testing.T) {
	patient := serve(t, server(t, echo), true, func(c *Config) { c.HelloTimeout = time.Minute })
	hasty := serve(t, server(t, echo), true, func(c *Config) { c.HelloTimeout = 300 * time.Millisecond })
	hello := func(lowest, highest byte, extensions int) []byte {
		b := wire.Hello{Lowest: lowest, Highest: highest, Codecs: 1, Window: 17}.Append(nil)
		b[wire.HelloLen-1] = byte(extensions)
		return append(b, bytes.Repeat([]byte{0xee}, extensions)...)
	}
	for name, c := range map[string]struct {
		hello []byte
		good  bool
	}{
		"all versions":  {hello(0, 255, 0), true},
		"extensions":    {hello(1, 1, 255), true},
		"version 0":     {hello(0, 0, 0), false},
		"version 255":   {hello(255, 255, 0), false},
		"too short":     {hello(1, 1, 255)[:wire.HelloLen+254], false},
		"upside down":   {hello(2, 0, 0), false},
		"future header": {hello(2, 9, 30), false},
	} {
		t.Run(name, func(t *testing.T) {
			exit := patient
			if !c.good {
				exit = hasty
			}
			conn := dial(t, exit.addr)
			for _, b := range c.hello { // a byte at a time
				if _, err := conn.Write([]byte{b}); err != nil {
					break
				}
			}
			if !c.good {
				_, _ = io.Copy(io.Discard, conn)
				return
			}
			answer, err := readHello(conn)
			if err != nil || answer.Lowest != wire.Version || answer.Highest != wire.Version {
				t.Fatalf("%+v, %v", answer, err)
			}
			frame := append([]byte{byte(wire.Open)}, append(wire.AppendRaw(nil, 4), "ping"...)...)
			if _, err := conn.Write(frame); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 6)
			if _, err := io.ReadFull(conn, got); err != nil || string(got[2:]) != "ping" {
				t.Errorf("%x, %v", got, err)
			}
		})
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

// writeUntilStuck writes until the other end reads no more.
func writeUntilStuck(c net.Conn, b []byte) {
	for err := error(nil); err == nil; {
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		_, err = c.Write(b)
	}
	_ = c.SetWriteDeadline(time.Time{})
}

// The session of a client that is gone ends, though the exit does not read what the client had sent.
func TestGoneBeforeStuckLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, exit, ran := alone(t)
		writeUntilStuck(client, make([]byte, 1<<20))
		_ = client.Close()
		_, _ = exit.Write(append(wire.AppendRaw(nil, 5), "hello"...)) // from this the entry detects it
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
		_, _ = client.Write([]byte("hello")) // from this the entry detects it
		<-ran
	})
}

// However connections end, no goroutine of them is left.
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
