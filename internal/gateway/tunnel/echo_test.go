package tunnel

import (
	"bytes"
	"fmt"
	"io"
	"testing"
)

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

func TestEcho(t *testing.T) {
	entry, exit := pair(t, server(t, echo), nil)
	c := dial(t, entry.addr)
	for i := range 200 {
		exchange(t, c, fmt.Appendf(nil, "message %d of a conversation that says much the same all the time", i))
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 {
		t.Fatalf("%q, %v after the end", rest, err)
	}
	for _, e := range []*end{entry, exit} {
		waitFor(t, func() bool { return e.stats.Snapshot().Connections.Open == 0 })
	}
}
