package http

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

type faultyWriter struct{ closed bool }

func (*faultyWriter) Append([]byte, []byte) ([]byte, error) { panic("while compressing") }
func (*faultyWriter) End([]byte) ([]byte, error)            { panic("while compressing") }
func (w *faultyWriter) Close()                              { w.closed = true }

// A body of unknown length is compressed in a goroutine of net/http's transport, which does not recover. A
// panic there becomes an error of the body, and the body's memory is released.
func TestPanicInAStream(t *testing.T) {
	log, w, freed := &testenv.Log{}, &faultyWriter{}, 0
	s := &streamBody{
		src: io.NopCloser(strings.NewReader("a body")), to: w, log: slog.New(slog.NewTextHandler(log, nil)), stats: gateway.NewStats("test", "http"),
		ch: recoding{rule: &policy.MessageRule{}}, free: func() { freed++ }, piece: make([]byte, 100),
	}
	for range 2 {
		if _, err := s.Read(make([]byte, 10)); !errors.Is(err, gateway.ErrPanicked) {
			t.Errorf("read: %v", err)
		}
	}
	_ = s.Close()
	if n := s.stats.Snapshot().Errors["panic"]; n != 1 || log.Count("stack=") != 1 || freed != 1 || !w.closed {
		t.Errorf("%d panics, %d stacks, freed %d times, closed %v", n, log.Count("stack="), freed, w.closed)
	}
}

// A panic ends its connection, is counted, and ends nothing else.
func TestPanic(t *testing.T) {
	handler, _ := recorder(nil)
	g := start(t, startUpstream(t, handler), nil)
	rewrite := g.common.proxy.Rewrite
	g.common.proxy.Rewrite = func(pr *httputil.ProxyRequest) {
		if pr.In.URL.Path == "/fault" {
			panic("a fault")
		}
		rewrite(pr)
	}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+"/fault", nil)
	if resp, err := (&http.Transport{}).RoundTrip(r); err == nil {
		_ = resp.Body.Close()
		t.Error(resp.Status)
	}
	if resp := post(t, g.url, bytes.NewReader(text)); resp.StatusCode != 200 {
		t.Error(resp.Status)
	}
	if n := g.stats.Snapshot().Errors["panic"]; n != 1 {
		t.Errorf("%d panics counted", n)
	}
}
