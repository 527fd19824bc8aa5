package grpc

import (
	"context"
	"crypto/sha256"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A call that ends while its message waits for another call to compress the same one is no compression error.
func TestCancelledWhileACopyIsMade(t *testing.T) {
	near := startGateway(t, "grpc://"+startServer(t, echo), func(c *Config) { c.UpstreamReads = []string{"zstd"} })
	rule := policy.MessageRule{Setting: set(t, "zstd"), MinSize: 64}
	near.SetPolicy(rulesOf(t, rule))
	message := payload(20_000)
	e, found := near.cfg.Cache.lookup(cacheKey{sha256.Sum256(message), rule.Setting})
	if found {
		t.Fatal("a copy is there")
	}
	ctx, cancel := context.WithTimeout(within(t), 100*time.Millisecond)
	defer cancel()
	if _, err := unary(ctx, connect(t, near.addr), "Unary", message); status.Code(err) != codes.DeadlineExceeded {
		t.Error(err)
	}
	testenv.Eventually(t, "the call's end", func() bool { return near.stats.Snapshot().Connections.Open == 1 && near.callsAtWork() == 0 })
	e.err = io.ErrClosedPipe
	close(e.done)
	if n := near.stats.Snapshot().Errors["compress"]; n != 0 {
		t.Errorf("%d failures of compression", n)
	}
}

func (g *Gateway) callsAtWork() (n int) {
	for _, h := range g.pool.Conns() {
		n += int(h.Active())
	}
	return n
}

// A link shows that the upstream is a gateway, so its error does not suggest TLS.
func TestLostLinkIsNoStranger(t *testing.T) {
	h := &upstreamConn{isLink: true, plainHTTP2: &atomic.Bool{}}
	if err := h.explain(io.ErrUnexpectedEOF); strings.Contains(err.Error(), "grpcs") {
		t.Error(err)
	}
}

// An error of the client's body proves nothing about the server, which has not answered yet.
func TestClientsErrorIsNotTheServers(t *testing.T) {
	n, server := net.Pipe()
	defer server.Close()
	h := &upstreamConn{plainHTTP2: &atomic.Bool{}}
	h.Conn = http2.NewClientConn(n, http2.ClientConfig{})
	if err := h.explain(errFormat); err != errFormat {
		t.Error(err)
	}
	h.Conn.Close()
	if err := h.explain(io.ErrUnexpectedEOF); !strings.Contains(err.Error(), "grpcs") {
		t.Error(err)
	}
}

// Errors of the transport for calls that a server has not begun are recognized.
func TestTransportsErrorsAreKnown(t *testing.T) {
	request := func(h *upstreamConn) error {
		resp, err := h.Conn.RoundTrip(newRequest(within(t), t))
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	}
	for _, test := range []struct {
		name             string
		do               func(h *upstreamConn) error
		notSeen, useless bool
	}{
		{"GOAWAY below the stream", func(h *upstreamConn) error { _ = request(h); return request(h) }, true, false},
		{"closed before its first stream", func(h *upstreamConn) error { h.Conn.Close(); return request(h) }, true, true},
		{"closed after it", func(h *upstreamConn) error { _ = request(h); h.Conn.Close(); return request(h) }, true, true},
		{"not to be used again", func(h *upstreamConn) error { _ = request(h); h.Conn.SetDoNotReuse(); return request(h) }, true, true},
		{"a request that is cancelled", func(h *upstreamConn) error {
			ctx, cancel := context.WithCancel(within(t))
			cancel()
			_, err := h.Conn.RoundTrip(newRequest(ctx, t))
			return err
		}, false, false},
	} {
		addr, _ := refusing(t, func(fr *xhttp2.Framer, id uint32, n int64) bool {
			if n == 2 {
				return fr.WriteGoAway(id-2, xhttp2.ErrCodeNo, nil) == nil
			}
			answerOK(fr, id)
			return true
		})
		g := startGateway(t, "grpc://"+addr, nil)
		h, err := g.pool.dialer.connect(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		switch err := test.do(h); {
		case err == nil:
			t.Errorf("%s: no error", test.name)
		case http2.IsUnprocessed(err) != test.notSeen || unusable(err) != test.useless:
			t.Errorf("%s: %q: not seen %v, useless %v", test.name, err, http2.IsUnprocessed(err), unusable(err))
		}
		h.Conn.Close()
	}
}

func newRequest(ctx context.Context, t *testing.T) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://test/a/b", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}
