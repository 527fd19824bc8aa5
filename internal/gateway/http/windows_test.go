package http

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/test/testenv"
)

// zeros is a body that does not end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A client that does not read its reply lets an HTTP/2 upstream get ahead by little more than one window.
func TestUnreadReplyBeforeHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written atomic.Int64
		s := &http.Server{Protocols: &http.Protocols{}, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			// Without a length the reverse proxy flushes by a timer, whose goroutine would wait for a lock: Wait would
			// never end.
			w.Header().Set("Content-Length", "1000000000000")
			for p := make([]byte, 4<<10); ; {
				n, err := w.Write(p)
				if written.Add(int64(n)); err != nil {
					return
				}
			}
		})}
		s.Protocols.SetUnencryptedHTTP2(true)
		l := testenv.NewPipeListener()
		go func() { _ = s.Serve(l) }()
		defer s.Close()
		budget := memory.NewBudget(64 << 20)
		g := NewGateway(Config{
			Name: "test", H2C: true, Upstream: endpoint.Upstream{Address: "x:1"}, Requests: budget, Replies: budget,
			Stats: gateway.NewStats("test", "http"), Log: slog.New(slog.DiscardHandler),
		})
		g.common.transport.dial = func(context.Context) (net.Conn, error) { return l.Dial() }
		here, there := testenv.Pipe()
		client := newSession(g, here)
		ended := make(chan struct{})
		go func() { defer close(ended); client.Run() }()
		_, _ = io.WriteString(there, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		synctest.Wait()
		const window, buffers = 128 << 10, 256 << 10 // buffers: of both connections, the server and the gateway
		if n := written.Load(); n < window || n > window+buffers+budget.InUse() {
			t.Errorf("%d bytes were written for a client that reads none; of the budget %d are used", n, budget.InUse())
		}
		_ = there.Close()
		<-ended
		if n := budget.InUse(); n != 0 {
			t.Errorf("%d bytes are held", n)
		}
		_ = g.Shutdown(t.Context())
	})
}

// Windows of replies take memory from the budget, at most half of it, and never more than maxUpstreamWindow.
func TestWindowsOfReplies(t *testing.T) {
	for _, c := range []struct{ budget, want int64 }{
		{0, maxUpstreamWindow - upstreamWindow}, {64 << 20, maxUpstreamWindow - upstreamWindow}, {4 << 20, 1<<20 - upstreamWindow}, {128 << 10, 0},
	} {
		budget := memory.NewBudget(c.budget)
		client := memory.NewConnMemory(&net.TCPAddr{}, nil, budget.Share("test").Client(nil))
		x := &exchange{common: &common{cfg: &Config{Replies: budget}}, memory: client}
		size := int64(upstreamWindow)
		for x.widen(size) {
			size *= 2
		}
		if got := size - upstreamWindow; got != c.want || c.budget > 0 && budget.InUse() != got {
			t.Errorf("of a budget of %d: %d bytes more, not %d; %d are used", c.budget, got, c.want, budget.InUse())
		}
		x.close()
		if n := budget.InUse(); n != 0 {
			t.Errorf("%d bytes are held", n)
		}
		client.Close()
	}
}

// An upload that the upstream does not read stops no other request on the client's HTTP/2 connection.
func TestUnreadUploadBesideOthers(t *testing.T) {
	begun, release := make(chan struct{}, 1), make(chan struct{})
	upstream := startUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			begun <- struct{}{}
			<-release
			return
		}
		tellProto(w, r)
	}))
	defer close(release)
	g := start(t, upstream, nil)
	client := twoClient(t)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, g.url+"/held", zeros{})
		if resp, err := client.RoundTrip(r); err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-begun
	testenv.Eventually(t, "memory is taken for what is not read", func() bool { return g.requests.InUse() > 0 })
	for range 4 {
		body := bytes.Repeat(text, 100)
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url, bytes.NewReader(body))
		resp, err := client.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(resp.Body); !bytes.Equal(got, body) {
			t.Errorf("%d of %d bytes, %v", len(got), len(body), err)
		}
		_ = resp.Body.Close()
	}
	cancel()
	<-over
}
