package http

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A session that is told to drain before it has begun ends at once, as when Shutdown overtakes a handshake.
func TestDrainBeforeRun(t *testing.T) {
	g := start(t, "127.0.0.1:1", nil)
	here, there := net.Pipe()
	defer there.Close()
	s := newSession(g.Gateway, here)
	s.Drain()
	time.Sleep(10 * time.Millisecond) // it drains in a goroutine of its own
	ended := make(chan struct{})
	go func() {
		s.Run()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Fatal("the session goes on")
	}
}

// The refusal of a connection too many is as long as it says.
func TestRefusal(t *testing.T) {
	g := start(t, "127.0.0.1:1", nil)
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(g.server.Refusal)), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || !strings.HasSuffix(string(g.server.Refusal), "\r\n\r\n"+string(body)) {
		t.Errorf("%q, %v", body, err)
	}
}

// A Content-Length is seen wherever reads break it, and however it is spelt.
func TestHeads(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	c := &heads{Conn: here}
	go func() {
		for piece := range strings.SplitSeq("POST / HTTP/1.1\r\nConT|ent-L|ength|: 5\r\n\r\nhelloPOST / HTTP/1.1\r\ncontent-length:5\r\nX: content-len|", "|") {
			_, _ = io.WriteString(there, piece)
		}
		_ = there.Close()
	}()
	for {
		if _, err := c.Read(make([]byte, headFill)); err != nil {
			break
		}
	}
	if c.named != 2 {
		t.Errorf("%d", c.named)
	}
}
