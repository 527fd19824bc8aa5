package tunnel

import (
	crand "crypto/rand"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/test/testenv"

	wire "github.com/cinch-layer/cinch/internal/wire/peer"
)

// Reset reasons that only an exit may send are malformed when an entry sends them.
func TestResetReasons(t *testing.T) {
	exit := serve(t, server(t, echo), true, nil)
	for _, reason := range []wire.Reason{wire.ReasonUnreachable, wire.ReasonRefused, 0, 255} {
		before := exit.stats.Snapshot().Errors["malformed"]
		c := opened(t, exit.addr)
		if _, err := c.Write(wire.AppendPlain(nil, wire.Frame{Kind: wire.Reset, Reason: reason})); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, c)
		waitFor(t, func() bool { return exit.stats.Snapshot().Errors["malformed"] == before+1 })
	}
	if text := exit.log.String(); strings.Contains(text, "does not reach") {
		t.Error(text)
	}
}

// A server may send an error message and close while the client still sends. The client gets the message, as it
// would without a tunnel.
func TestLastWordsBeforeReset(t *testing.T) {
	const words = "FATAL: enough"
	entry, _ := pair(t, server(t, func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, make([]byte, 1000))
		_, _ = c.Write([]byte(words))
		_ = c.Close() // with bytes unread: a reset
	}), nil)
	chunk := newSpeech(3).next(8 << 10)
	for i := range 20 {
		c := dial(t, entry.addr)
		for range 2000 {
			if _, err := c.Write(chunk); err != nil {
				break
			}
		}
		got, _ := io.ReadAll(c)
		if string(got) != words {
			t.Fatalf("%d: the client read %q", i, got)
		}
		_ = c.Close()
	}
}

// A reset by a server is not passed on as a FIN, even if the exit detects it by writing a close_notify to the server
// while data from the server waits to be sent.
func TestResetFoundBySayingAnEnd(t *testing.T) {
	ca := testenv.NewAuthority(t)
	running, isReset := make(chan *end, 1), make(chan struct{})
	upstream := server(t, func(c *net.TCPConn) {
		defer close(isReset)
		exit, s := <-running, tls.Server(c, ca.Issue(t, "server").TLS(t))
		sayUntilStuck(s, exit)
		gateway.SetResetOnClose(c, true)
		_ = c.Close()
	})
	exit := serve(t, upstream, true, func(c *Config) { c.Upstream.TLS = &tls.Config{RootCAs: ca.Pool, ServerName: "127.0.0.1"} })
	running <- exit
	entry := opened(t, exit.addr)
	<-isReset
	if _, err := entry.Write([]byte{byte(wire.Fin)}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return exit.log.Count("reset by its own side") > 0 }) // the exit has passed the reset on
	said, _ := io.ReadAll(entry)
	for len(said) > 0 {
		f, n, err := wire.Parse(said)
		if err != nil || n > len(said) {
			break
		}
		if f.Kind == wire.Fin {
			t.Error("an end came of a reset")
		}
		said = said[n:]
	}
}

// sayUntilStuck writes whole records until an exit has not carried the last one within half a second.
func sayUntilStuck(c net.Conn, exit *end) {
	noise := make([]byte, 16<<10)
	for sent := uint64(0); ; sent += uint64(len(noise)) {
		_, _ = crand.Read(noise)
		if _, err := c.Write(noise); err != nil {
			return
		}
		for tries := 0; exit.passed() < sent; tries++ {
			if tries == 500 {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// passed returns the number of bytes carried, before compression.
func (e *end) passed() (n uint64) {
	for _, r := range e.stats.Snapshot().Rules {
		n += r.RawBytes
	}
	return n
}
