package admin

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// limitedServer serves pages on loopback. It returns the address and the limit of connections.
func limitedServer(t *testing.T) (addr string, most int) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Routes: map[string]http.Handler{}, Access: AccessOn(inner.Addr(), nil, nil)})
	served := make(chan error, 1)
	go func() { served <- s.Serve(Limit(inner)) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Shutdown(ctx)
		<-served
	})
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	return inner.Addr().String(), int(min(maxConns, limit.Cur/descriptorPart))
}

func dialFrom(t *testing.T, local, addr string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}}
	c, err := d.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// probe requests /healthz on a new connection from an address.
func probe(t *testing.T, local, addr string) error {
	t.Helper()
	c := dialFrom(t, local, addr)
	defer c.Close()
	if _, err := fmt.Fprintf(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
		return err
	}
	all, err := io.ReadAll(c)
	if err != nil || len(all) < 15 || string(all[9:12]) != "200" {
		return fmt.Errorf("%q, %w", all, err)
	}
	return nil
}

// One client opens more connections than the limit, and keeps them idle. The oldest are closed, and probes
// are answered from every address, including the client's.
func TestConnectionsAreLimited(t *testing.T) {
	addr, most := limitedServer(t)
	closed := make(chan int, most+10)
	for i := range most + 10 {
		c := dialFrom(t, "127.0.0.2", addr)
		// After one request a connection is idle for minutes; without any request the header timeout would
		// close it.
		_, _ = fmt.Fprint(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		go func() {
			_, _ = io.Copy(io.Discard, c)
			closed <- i
		}()
	}
	for range 10 {
		<-closed
	}
	for _, from := range []string{"127.0.0.2", "127.0.0.1"} {
		dialFrom(t, "127.0.0.2", addr) // replaces the one that the last probe has displaced
		if err := probe(t, from, addr); err != nil {
			t.Errorf("a probe from %s: %v", from, err)
		}
	}
}

// A page on a kept connection stays connected, while another address opens as many connections as it can.
func TestAnothersConnectionsAreKept(t *testing.T) {
	addr, most := limitedServer(t)
	kept := dialFrom(t, "127.0.0.1", addr)
	answers := bufio.NewReader(kept)
	ask := func() {
		t.Helper()
		_, _ = fmt.Fprint(kept, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	ask()
	for range most + 10 {
		dialFrom(t, "127.0.0.2", addr)
	}
	testenv.Eventually(t, "all have come", func() bool { return probe(t, "127.0.0.3", addr) == nil })
	ask()
}
