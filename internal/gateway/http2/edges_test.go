package http2

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	xhttp2 "golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/test/testenv"
)

// If a client goes away within a body, the handler gets an error and not the end of the body.
func TestClientGoesWithinABody(t *testing.T) {
	got := make(chan error, 1)
	addr := serveWith(t, false, func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		got <- err
	}, nil)
	r := rawClient(t, addr)
	r.headers(1, false, with("content-type", "application/grpc")...)
	_ = r.WriteData(1, false, []byte("half"))
	_ = r.net.(*net.TCPConn).CloseWrite() // like a process that dies
	select {
	case err := <-got:
		if err == nil {
			t.Error("a body that was cut off looks whole")
		}
	case <-within(t).Done():
		t.Error("the handler continues")
	}
}

// Requests that wait for their turn fail when the connection ends, although no stream does.
func TestTurnThatNeverComes(t *testing.T) {
	for name, end := range map[string]func(c *ClientConn, server *raw){
		"the server": func(_ *ClientConn, server *raw) { _ = server.net.Close() },
		"the client": func(c *ClientConn, _ *raw) { c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			servers := make(chan *raw, 1)
			c := dialWith(t, scripted(t, func(r *raw) {
				_ = r.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingMaxConcurrentStreams, Val: 0})
				servers <- r
			}), false)
			testenv.Eventually(t, "settings come", c.HasSettings)
			failed := make(chan error, 1)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			go func() {
				_, err := c.RoundTrip(request(ctx, t, "GET", "/", nil))
				failed <- err
			}()
			testenv.Eventually(t, "the request waits", func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return len(c.queue) == 1
			})
			end(c, <-servers)
			if err := <-failed; !errors.Is(err, ErrUnusable) {
				t.Error(err)
			}
		})
	}
}

// scripted starts a server that runs do on its first connection, once it has the client's preface.
func scripted(t *testing.T, do func(r *raw)) string {
	l := listen(t)
	go func() {
		n, err := l.Accept()
		if err != nil {
			return
		}
		r := newRaw(t, n)
		_, _ = io.ReadFull(n, make([]byte, len(xhttp2.ClientPreface)))
		do(r)
	}()
	return l.Addr().String()
}

// A server whose settings have no limit does not make requests wait.
func TestNoLimitAfterAll(t *testing.T) {
	settle, all := make(chan struct{}), make(chan struct{})
	c := dialWith(t, scripted(t, func(r *raw) {
		<-settle
		_ = r.WriteSettings()
		for n := 0; n < initialMaxStreams+1; {
			f, err := r.ReadFrame()
			if err != nil {
				return
			}
			if _, ok := f.(*xhttp2.HeadersFrame); ok {
				n++
			}
		}
		close(all)
	}), false)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	for range initialMaxStreams + 1 {
		go func() { _, _ = c.RoundTrip(request(ctx, t, "GET", "/", nil)) }()
	}
	testenv.Eventually(t, "one waits", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.queue) == 1
	})
	close(settle)
	select {
	case <-all:
	case <-time.After(3 * time.Minute):
		t.Error("it waits on")
	}
}

// Requests do not wait for a turn on a connection whose stream numbers are used up.
func TestNoNumbersLeft(t *testing.T) {
	c := dialWith(t, scripted(t, func(r *raw) {
		_ = r.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingMaxConcurrentStreams, Val: 1})
		_, _ = io.Copy(io.Discard, r.net)
	}), false)
	testenv.Eventually(t, "settings come", c.HasSettings)
	c.mu.Lock()
	c.next = maxStreamID - 2
	c.maxStreams = 0
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	const all = 3
	failed := make(chan error, all)
	for range all {
		go func() {
			_, err := c.RoundTrip(request(ctx, t, "GET", "/", nil))
			failed <- err
		}()
	}
	testenv.Eventually(t, "they wait", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.queue) == all
	})
	c.mu.Lock()
	c.maxStreams = 1
	c.admit()
	c.mu.Unlock()
	for range all - 1 {
		if err := <-failed; !errors.Is(err, ErrUnusable) {
			t.Error(err)
		}
	}
}

// Further frames of a refused request neither end the connection nor cause an answer.
func TestRestOfARefusedRequest(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	addr := serveWith(t, false, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}, func(c *ServerConfig) { c.MaxStreams = 1 })
	for name, fields := range map[string][]string{"refused": get, "malformed": with("connection", "x")} {
		t.Run(name, func(t *testing.T) {
			r := rawClient(t, addr)
			r.headers(1, true, get...)
			r.headers(3, false, fields...)
			_ = r.WriteData(3, false, []byte("body"))
			r.headers(3, true, "a", "b")
			if got := r.verdict(); !strings.HasPrefix(got, "RST 3") {
				t.Fatal(got)
			}
			if got := r.verdict(); got != "ok" {
				t.Error(got)
			}
		})
	}
}

// However many requests a drain leaves out, further frames of them do not end the accepted ones.
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

// unread returns a client that has begun, on a connection without a buffer: what it does not read is not
// written.
func unread(t *testing.T, cfg ServerConfig) *raw {
	client, server := net.Pipe()
	cfg.MaxStreams, cfg.Window, cfg.ConnWindow = testStreams, testWindow, testWindow*testStreams
	s := NewServer(server, cfg)
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.Serve()
	}()
	t.Cleanup(func() {
		_ = client.Close()
		<-served
	})
	r := newRaw(t, client)
	_, _ = io.WriteString(client, xhttp2.ClientPreface)
	_ = r.WriteSettings()
	return r
}

// A long header block that waits for a slow client does not count as control output.
func TestPingBehindALongBlock(t *testing.T) {
	queued := make(chan struct{})
	r := unread(t, ServerConfig{MaxHeader: 1 << 20, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("~", 400<<10))
		_ = http.NewResponseController(w).Flush()
		close(queued)
	})})
	r.headers(1, true, get...)
	<-queued
	go func() { _ = r.WritePing(false, [8]byte{1}) }()
	for {
		f, err := r.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch f := f.(type) {
		case *xhttp2.PingFrame:
			return
		case *xhttp2.GoAwayFrame:
			t.Fatal(f)
		}
	}
}

// Requests without a handler cost no more than others, however many a client sends that reads nothing.
func TestRefusalsThatNobodyReads(t *testing.T) {
	r := unread(t, ServerConfig{Handler: http.HandlerFunc(echo), MaxHeader: 4 << 10})
	_ = r.net.SetDeadline(time.Now().Add(20 * time.Second))
	r.headers(1, true, with("x", strings.Repeat("y", 3000))...) // now it is in the table
	block := r.fields(append(with(), "x", strings.Repeat("y", 3000), "x", strings.Repeat("y", 3000))...)
	for id := uint32(3); id < 200_000; id += 2 {
		err := r.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndStream: true, EndHeaders: true})
		if err != nil {
			if strings.Contains(err.Error(), "timeout") {
				t.Error(err)
			}
			return
		}
	}
	t.Error("all were answered, into memory")
}

// A field that is longer than the limit fails only its own request.
func TestLongField(t *testing.T) {
	addr := serveWith(t, false, echo, nil)
	r := rawClient(t, addr)
	value := strings.Repeat("~", testHeader+100) // the Huffman code does not shorten it
	_ = r.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: r.fields(get...), EndStream: true})
	block := r.fields("x", value)
	for len(block) > 16<<10 {
		_ = r.WriteContinuation(1, false, block[:16<<10])
		block = block[16<<10:]
	}
	_ = r.WriteContinuation(1, true, block)
	if got := r.verdict(); got != "ok" {
		t.Error(got)
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

// After the headers of a response, 100 (Continue) must not be sent: it would be taken for trailers.
func TestNoContinueBehindTheResponse(t *testing.T) {
	addr := serveWith(t, false, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		_, _ = io.Copy(io.Discard, r.Body)
	}, nil)
	r := rawClient(t, addr)
	r.headers(1, false, with("expect", "100-continue")...)
	ended := false
	for blocks := 0; ; {
		switch f := r.read().(type) {
		case *xhttp2.HeadersFrame:
			if blocks++; blocks > 1 {
				t.Fatal("headers after those of the response")
			}
			_ = r.WriteData(1, true, nil)
			ended = true
		case *xhttp2.DataFrame:
			if ended && f.StreamEnded() {
				return
			}
		}
	}
}
