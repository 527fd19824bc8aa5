package mongo

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// In a failover every dial of every driver's pool is refused. That is logged once, and so is the recovery.
func TestUnreachableIsLoggedOnce(t *testing.T) {
	l := listen(t)
	_ = l.Close()
	s := serve(t, l.Addr().String(), withZstd)
	for range 20 {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if n, err := io.Copy(io.Discard, c); err != nil || n != 0 {
			t.Fatalf("%d bytes, %v from a gateway whose server is down", n, err)
		}
		_ = c.Close()
	}
	if n := strings.Count(s.log.String(), `msg="upstream unreachable`); n != 1 {
		t.Fatalf("%d lines for 20 refused dials", n)
	}

	up, err := net.Listen("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	for range 2 {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write(helloRequest()); err != nil {
			t.Fatal(err)
		}
		accepted(t, up)
	}
	if text := s.log.String(); strings.Count(text, "upstream reachable again") != 1 || !strings.Contains(text, "refused=19") {
		t.Error("the log does not say once that 19 more dials were refused")
	}
}

// accepted reads the gateway's own hello from a connection, and closes that without a reply.
func accepted(t *testing.T, l net.Listener) {
	t.Helper()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.ReadFull(c, make([]byte, len(helloRequest()))); err != nil {
		t.Fatal(err)
	}
}
