package tunnel

import (
	"io"
	"net"
	"strings"
	"testing"

	wire "github.com/cinch-layer/cinch/internal/wire/tunnel"
)

// What only an exit can say counts for nothing when an entry says it.
func TestResetReasons(t *testing.T) {
	exit := serve(t, server(t, echo), true, nil)
	for _, reason := range []wire.Reason{wire.ReasonUnreachable, wire.ReasonRefused, 0, 255} {
		before := exit.stats.Snapshot().Errors["malformed"]
		c := dial(t, exit.addr)
		b := append(wire.Hello{Lowest: 1, Highest: 1, Codecs: sends}.Append(nil), byte(wire.Open))
		if _, err := c.Write(wire.AppendPlain(b, wire.Frame{Kind: wire.Reset, Reason: reason})); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, c)
		waitFor(t, func() bool { return exit.stats.Snapshot().Errors["malformed"] == before+1 })
	}
	if text := exit.log.String(); strings.Contains(text, "does not reach") {
		t.Error(text)
	}
}

// A server that has enough says so and closes, while the client still sends: what it said arrives, as it would
// without a tunnel.
func TestLastWordsBeforeReset(t *testing.T) {
	const words = "FATAL: enough"
	entry, _ := pair(t, server(t, func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, make([]byte, 1000))
		_, _ = c.Write([]byte(words))
		_ = c.Close() // with bytes unread: a reset
	}), nil)
	chunk := newSpeech(3).next(8 << 10)
	for i := range 60 {
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
