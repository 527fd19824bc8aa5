package tunnel

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	wire "github.com/cinch-layer/cinch/internal/wire/tunnel"
)

// Hellos of other versions, with extensions, in pieces.
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

// A client that is gone is let go of, though the exit does not take what it had said.
func TestGoneBeforeStuckLink(t *testing.T) {
	gone := make(chan struct{})
	fake := server(t, func(c *net.TCPConn) {
		defer c.Close()
		_, _ = io.ReadFull(c, make([]byte, wire.HelloLen))
		_, _ = c.Write(wire.Hello{Lowest: 1, Highest: 1, Codecs: 1}.Append(nil))
		<-gone
		for { // the first one is answered with a reset
			if _, err := c.Write(append(wire.AppendRaw(nil, 5), "hello"...)); err != nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	entry := serve(t, fake, false, nil)
	c := dial(t, entry.addr)
	_ = c.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
	for err := error(nil); err == nil; {
		_, err = c.Write(make([]byte, 1<<20))
	}
	_ = c.SetLinger(0)
	_ = c.Close()
	close(gone)
	waitFor(t, func() bool { return entry.stats.Snapshot().Connections.Open == 0 })
}

// A client that takes nothing is let go of when its link is lost: it may be waiting for us to take something.
func TestLostBehindStuckClient(t *testing.T) {
	lost := make(chan struct{})
	fake := server(t, func(c *net.TCPConn) {
		defer close(lost)
		_, _ = io.ReadFull(c, make([]byte, wire.HelloLen))
		_, err := c.Write(wire.Hello{Lowest: 1, Highest: 1, Codecs: 1}.Append(nil))
		_ = c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
		frame := append(wire.AppendRaw(nil, wire.MaxRaw), make([]byte, wire.MaxRaw)...)
		for err == nil {
			_, err = c.Write(frame)
		}
		_ = c.SetLinger(0)
		_ = c.Close()
	})
	entry := serve(t, fake, false, nil)
	c := dial(t, entry.addr)
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	<-lost
	waitFor(t, func() bool {
		_, err := c.Write([]byte("hello")) // by which the entry finds out
		return err != nil || entry.stats.Snapshot().Connections.Open == 0
	})
}

// Whatever ends connections, nothing of them stays.
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
