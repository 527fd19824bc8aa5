package grpc

import (
	"context"
	"net/http"
	"strings"
	"testing"

	xhttp2 "golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/gateway/http2"
)

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
		h, err := g.pool.dialer.connect(t.Context())
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
