package tunnel

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	wire "github.com/cinch-layer/cinch/internal/wire/peer"
)

// An exit accepts a hello with a range of versions that includes its own, with extensions, and a byte at a time. It
// disconnects other peers.
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

// An exit refuses anything that is not a hello, counts it and logs it.
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
	if n := strings.Count(exit.log.String(), "not a gateway's hello"); n != 5 {
		t.Errorf("%d hellos were logged", n)
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
			stays := func(c *net.TCPConn) { // otherwise the session might end before it reads the bytes behind a FIN
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
				defer client.Close() // not earlier, or the session might end before it reads all frames
				_, err = io.Copy(io.Discard, client)
			}
			if ended := strings.Contains(name, "fin"); !ended && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the client saw %v", err)
			}
			waitFor(t, func() bool { return entry.stats.Snapshot().Errors[c.class] == 1 })
		})
	}
}
