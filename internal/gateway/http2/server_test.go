package http2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	xhttp2 "golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/test/testenv"
)

// Drain lets requests end, and accepts no more.
func TestDrain(t *testing.T) {
	var server atomic.Pointer[Server]
	began, proceed := make(chan struct{}, 1), make(chan struct{})
	c := pair(t, func(w http.ResponseWriter, r *http.Request) {
		server.Store(w.(*response).call.server)
		if r.URL.Path == "/wait" {
			began <- struct{}{}
			<-proceed
		}
		echo(w, r)
	}, nil)
	mustEcho(t, c, 10)
	got := make(chan error)
	go func() {
		resp, err := c.RoundTrip(request(within(t), t, "POST", "/wait", strings.NewReader("x")))
		if err == nil {
			var body []byte
			if body, err = io.ReadAll(resp.Body); string(body) != "x" {
				t.Errorf("%q", body)
			}
		}
		got <- err
	}()
	<-began
	server.Load().Drain()
	testenv.Eventually(t, "GOAWAY", func() bool {
		_, usable := c.streamLimit()
		return !usable
	})
	if _, err := c.RoundTrip(request(within(t), t, "GET", "/", nil)); !errors.Is(err, ErrUnusable) {
		t.Errorf("a request after GOAWAY: %v", err)
	}
	close(proceed)
	if err := <-got; err != nil {
		t.Error(err)
	}
	<-c.Done()
}

// Requests that a client sent before it read the final GOAWAY are ignored, and accepted requests go on.
func TestBeyondTheLast(t *testing.T) {
	servers := make(chan *Server, 1)
	addr := serveWith(t, false, func(w http.ResponseWriter, r *http.Request) {
		servers <- w.(*response).call.server
		echo(w, r)
	}, nil)
	c := rawClient(t, addr)
	c.headers(1, false, with()...)
	(<-servers).Drain()
	for last := uint32(0); last != 1; {
		switch f := c.read().(type) {
		case *xhttp2.PingFrame:
			_ = c.WritePing(true, f.Data)
		case *xhttp2.GoAwayFrame:
			last = f.LastStreamID
		}
	}
	c.headers(3, false, with()...)
	_ = c.WriteData(3, true, []byte("left out"))
	_ = c.WriteData(1, true, []byte("counts"))
	for {
		switch f := c.read().(type) {
		case *xhttp2.DataFrame:
			if f.StreamID != 1 || string(f.Data()) != "counts" {
				t.Fatalf("%q on stream %d", f.Data(), f.StreamID)
			}
			return
		case *xhttp2.GoAwayFrame, *xhttp2.RSTStreamFrame:
			t.Fatal(f)
		}
	}
}

// tail is the length of the last response of TestDrainLeavesNothingBehind: more than the client's system
// accepts before the client reads.
const tail = 2 << 20

// A drain closes the connection after the last response, which arrives completely whatever the client sends
// meanwhile.
func TestDrainLeavesNothingBehind(t *testing.T) {
	l := listen(t)
	proceed, served := make(chan struct{}), make(chan struct{})
	servers := make(chan *Server, 1)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-proceed
		_, _ = w.Write(make([]byte, tail))
	})
	srv := gateway.Server{Name: "test", NewSession: func(n net.Conn) gateway.Session {
		s := NewServer(n, ServerConfig{Handler: handler, MaxStreams: 10, Window: testWindow, ConnWindow: testWindow * 10, MaxHeader: testHeader})
		servers <- s
		return session{s}
	}}
	go func() {
		defer close(served)
		_ = srv.Serve(l)
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = srv.Shutdown(ctx)
		<-served
	})
	d := net.Dialer{}
	n, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = n.(*net.TCPConn).SetReadBuffer(16 << 10)
	r := newRaw(t, n)
	_, _ = io.WriteString(n, xhttp2.ClientPreface)
	_ = r.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: 1 << 30})
	_ = r.WriteWindowUpdate(0, 1<<30)
	r.headers(1, true, get...)
	s := <-servers
	s.Drain()
	for answered := false; !answered; { // until the client has read the first GOAWAY
		if p, ok := r.read().(*xhttp2.PingFrame); ok && !p.IsAck() {
			_ = r.WritePing(true, p.Data)
			answered = true
		}
	}
	close(proceed)
	got := 0
	for {
		f, err := r.ReadFrame()
		if err != nil {
			t.Fatalf("after %d bytes of %d: %v", got, tail, err)
		}
		d, ok := f.(*xhttp2.DataFrame)
		if !ok {
			continue
		}
		got += len(d.Data())
		if d.StreamEnded() {
			break
		}
		_ = r.WriteWindowUpdate(0, uint32(len(d.Data())))
	}
	if got != tail {
		t.Errorf("%d bytes of %d", got, tail)
	}
	_ = n.Close()
	<-s.done
}

// However many requests a drain ignores, further frames of them do not end the accepted ones.
func TestManyBeyondTheLast(t *testing.T) {
	servers := make(chan *Server, 1)
	addr := serveWith(t, false, func(w http.ResponseWriter, r *http.Request) {
		servers <- w.(*response).call.server
		echo(w, r)
	}, nil)
	c := rawClient(t, addr)
	c.headers(1, false, get...)
	(<-servers).Drain()
	for last := uint32(0); last != 1; {
		switch f := c.read().(type) {
		case *xhttp2.PingFrame:
			_ = c.WritePing(true, f.Data)
		case *xhttp2.GoAwayFrame:
			last = f.LastStreamID
		}
	}
	for id := uint32(3); id < 203; id += 2 {
		c.headers(id, false, get...)
	}
	for id := uint32(3); id < 203; id += 2 {
		_ = c.WriteData(id, false, []byte("left out"))
		c.headers(id, true, "a", "b")
	}
	if got := c.verdict(); got != "ok" {
		t.Error(got)
	}
}

// A connection without requests gets GOAWAY, whatever else its client sends; one with requests does not.
func TestIdleTimeout(t *testing.T) {
	proceed := make(chan struct{})
	c := pair(t, func(w http.ResponseWriter, r *http.Request) {
		<-proceed
		echo(w, r)
	}, func(cfg *ServerConfig) { cfg.IdleTimeout = 100 * time.Millisecond })
	time.AfterFunc(300*time.Millisecond, func() { close(proceed) })
	mustEcho(t, c, 100)
	testenv.Eventually(t, "the connection is told to go", func() bool {
		_ = c.Ping(t.Context())
		_, usable := c.streamLimit()
		return !usable
	})
	<-c.Done()
	unused := dialWith(t, serveWith(t, false, echo, func(cfg *ServerConfig) { cfg.IdleTimeout = 10 * time.Millisecond }), false)
	<-unused.Done()
}

// Serve returns after the last handler, so that the handler's memory is released before the client counts as
// gone.
func TestServeAwaitsHandlers(t *testing.T) {
	client, server := net.Pipe()
	begun, served, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s := NewServer(server, ServerConfig{MaxStreams: 1, MaxHeader: testHeader, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		defer close(over)
		close(begun)
		<-r.Context().Done()
		select {
		case <-served:
			t.Error("the handler runs on")
		case <-time.After(50 * time.Millisecond):
		}
	})})
	go func() {
		defer close(served)
		_ = s.Serve()
	}()
	r := newRaw(t, client)
	go func() { _, _ = io.Copy(io.Discard, client) }()
	_, _ = io.WriteString(client, xhttp2.ClientPreface)
	_ = r.WriteSettings()
	r.headers(1, true, get...)
	<-begun
	_ = client.Close()
	<-served
	<-over
}

// Serve returns the rule that the client broke, if it broke one.
func TestServeTells(t *testing.T) {
	for what, say := range map[string]func(r *raw){
		"PROTOCOL_ERROR": func(r *raw) { r.headers(2, true, get...) },
		"<nil>":          func(r *raw) { _ = r.net.Close() },
	} {
		n, there := net.Pipe()
		got := make(chan error)
		go func() {
			got <- NewServer(n, ServerConfig{Handler: http.HandlerFunc(echo), MaxStreams: 1, MaxHeader: testHeader}).Serve()
		}()
		go func() { _, _ = io.Copy(io.Discard, there) }()
		r := newRaw(t, there)
		_, _ = io.WriteString(there, xhttp2.ClientPreface)
		_ = r.WriteSettings()
		say(r)
		if err := fmt.Sprint(<-got); !strings.Contains(err, what) {
			t.Errorf("%s, not %s", err, what)
		}
	}
}

// A handler that sets "Connection: close", as it would for HTTP/1, ends the connection after the response.
func TestConnectionClose(t *testing.T) {
	c := pair(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		echo(w, r)
	}, nil)
	mustEcho(t, c, 100)
	<-c.Done()
}
