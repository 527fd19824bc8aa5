package http2

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/nettest"
)

// streamPair returns both ends of a StreamConn, on a connection of their own. The handler at the server's end returns
// when done is called, or the test ends.
func streamPair(t testing.TB, hidden bool) (client, server *StreamConn, done func()) {
	t.Helper()
	ends := make(chan *StreamConn, 1)
	over, done := context.WithCancel(context.Background())
	t.Cleanup(done)
	addr := serveWith(t, hidden, func(w http.ResponseWriter, _ *http.Request) {
		c, err := w.(ResponseWriter).Conn()
		if err != nil {
			t.Error(err)
			return
		}
		ends <- c
		<-over.Done()
	}, nil)
	client, err := dialWith(t, addr, hidden).Connect(context.Background(), "server", nil)
	if err != nil {
		t.Fatal(err)
	}
	return client, <-ends, done
}

// A StreamConn passes the test suite for connections of golang.org/x/net.
func TestStreamConn(t *testing.T) {
	for name, hidden := range map[string]bool{"plain": false, "as TLS": true} {
		t.Run(name, func(t *testing.T) {
			nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
				client, server, done := streamPair(t, hidden)
				return client, server, func() {
					_ = client.Close()
					_ = server.Close()
					done()
				}, nil
			})
		})
	}
}

// Each side can end its writing and read on.
func TestStreamConnHalfClose(t *testing.T) {
	client, server, _ := streamPair(t, false)
	long := bytes.Repeat([]byte("0123456789"), 30_000) // beyond the window
	go func() {
		_, _ = client.Write(long)
		_ = client.CloseWrite()
	}()
	if got, err := io.ReadAll(server); err != nil || !bytes.Equal(got, long) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if _, err := client.Write([]byte("x")); err == nil {
		t.Error("a write after CloseWrite")
	}
	if _, err := io.WriteString(server, "reply"); err != nil {
		t.Fatal(err)
	}
	if err := server.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(client); err != nil || string(got) != "reply" {
		t.Errorf("%q, %v", got, err)
	}
	if client.Close() != nil || !errors.Is(client.Close(), net.ErrClosed) {
		t.Error("Close")
	}
}

// What was written before Close arrives, and then the other end's writes fail.
func TestStreamConnClose(t *testing.T) {
	for _, byClient := range []bool{true, false} {
		client, server, done := streamPair(t, false)
		a, b := client, server
		if !byClient {
			a, b = server, client
		}
		if _, err := io.WriteString(a, "last words"); err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if !byClient {
			done()
		}
		if got, err := io.ReadAll(b); err != nil || string(got) != "last words" {
			t.Errorf("%q, %v", got, err)
		}
		var err error
		for n := 0; err == nil && n < 10*testWindow; n += 1 << 10 {
			_, err = b.Write(make([]byte, 1<<10))
		}
		if err == nil {
			t.Error("the other end goes on writing")
		}
	}
}

// If the server refuses the request, reads fail with its status. If the client's connection ends, the server's reads
// fail.
func TestStreamConnEnds(t *testing.T) {
	refuse := pair(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }, nil)
	c, err := refuse.Connect(context.Background(), "server", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "403") {
		t.Errorf("%v", err)
	}
	_ = c.Close()

	begun, ended := make(chan bool, 1), make(chan error, 1)
	h := pair(t, func(w http.ResponseWriter, _ *http.Request) {
		s, err := w.(ResponseWriter).Conn()
		begun <- true
		if err == nil {
			_, err = s.Read(make([]byte, 1))
		}
		ended <- err
	}, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancelled, err := h.Connect(ctx, "server", nil)
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	cancel() // it was only for opening the stream
	if _, err := io.WriteString(cancelled, "x"); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the server's read: %v", err)
	}
	_ = cancelled.Close()
	if _, err := h.Connect(context.Background(), "server", nil); err != nil {
		t.Fatal(err)
	}
	<-begun
	h.Close()
	if err := <-ended; err == nil || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		t.Errorf("with the connection: %v", err)
	}
	if _, err := h.Connect(context.Background(), "server", nil); err != ErrUnusable {
		t.Errorf("on a closed connection: %v", err)
	}
}
