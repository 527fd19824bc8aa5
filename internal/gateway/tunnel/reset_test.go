package tunnel

import (
	"io"
	"net"
	"testing"
)

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
