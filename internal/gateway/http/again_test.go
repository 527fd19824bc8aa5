package http

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
)

// cancelled is a transport whose first request ends for another one's sake.
type cancelled struct{ requests int }

func (c *cancelled) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.requests++; c.requests == 1 {
		return nil, context.Canceled
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(nil)), Request: r}, nil
}

// Who breaks off a request costs others none that may come twice.
func TestCancelledByOthers(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, x := range []struct {
		ctx      context.Context
		method   string
		requests int
	}{{t.Context(), "GET", 2}, {t.Context(), "HEAD", 2}, {t.Context(), "POST", 1}, {over, "GET", 1}} {
		to := &cancelled{}
		r, _ := http.NewRequestWithContext(x.ctx, x.method, "http://x/", nil)
		resp, err := resender{to}.plain(&trip{common: &common{}}, r)
		if err == nil {
			_ = resp.Body.Close()
		}
		if to.requests != x.requests || (err == nil) != (x.requests == 2) {
			t.Errorf("%s: %d requests, %v", x.method, to.requests, err)
		}
	}
}

// An upstream that doesn't like a request itself has not refused its coding.
func TestRefusedForOtherReasons(t *testing.T) {
	handler, got := recorder(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Content-Type") == "text/bad" {
			w.WriteHeader(http.StatusUnsupportedMediaType)
		}
	})
	g := start(t, startUpstream(t, handler), nil, requestsTo(t, "zstd"))
	if resp := post(t, g.url, bytes.NewReader(text), "Content-Type", "text/bad"); resp.StatusCode != http.StatusUnsupportedMediaType {
		t.Error(resp.Status)
	}
	<-got
	<-got
	post(t, g.url, bytes.NewReader(text), "Content-Type", "text/good")
	if s := <-got; s.Header.Get("Content-Encoding") != "zstd" {
		t.Errorf("%v", s.Header)
	}
}
