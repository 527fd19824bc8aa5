package http

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// cancelled is a transport whose first request fails because another one was cancelled.
type cancelled struct{ requests int }

func (c *cancelled) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.requests++; c.requests == 1 {
		return nil, context.Canceled
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(nil)), Request: r}, nil
}

// A body that is passed on unchanged is reported as complete when all of it has arrived, so that HTTP/2 sends
// it in one piece.
func TestBodyIsKnownToBeComplete(t *testing.T) {
	g := start(t, "127.0.0.1:1", nil)
	complete := make(chan bool, 1)
	g.common.proxy.Transport = roundTripper(func(out *http.Request) (*http.Response, error) {
		body, ok := out.Body.(interface{ Complete() bool })
		complete <- ok && body.Complete()
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: out}, nil
	})
	for _, ends := range []bool{true, false} {
		n, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		begin := inFrames(text[:100], ":method", "POST")
		if ends {
			begin += "\x00\x00\x00\x00\x01\x00\x00\x00\x01"
		}
		_, _ = io.WriteString(n, begin)
		if got := <-complete; got != ends {
			t.Errorf("the body has ended: %v, it is complete: %v", ends, got)
		}
		_ = n.Close()
	}
}

// A request that may be sent twice does not fail because another request was cancelled.
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
		resp, err := resender{to}.sendPlain(&exchange{common: &common{}}, r)
		if err == nil {
			_ = resp.Body.Close()
		}
		if to.requests != x.requests || (err == nil) != (x.requests == 2) {
			t.Errorf("%s: %d requests, %v", x.method, to.requests, err)
		}
	}
}

// An upstream that refuses a request whatever its coding has not refused the coding.
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

// The account waits for a peer until all readers of a body are closed, not only the first, which may be slow
// to close when the body is sent again.
func TestBodySentOnceMoreIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := memory.NewBudget(1 << 20)
		share := budget.Share("test")
		cut := make(chan memory.StallReason, 1)
		b := newWholeBody(t.Context(), strings.NewReader(strings.Repeat("x", 64<<10)), memory.FromClient, share.Client(&net.TCPAddr{}), make(chan struct{}, 1), func(v memory.StallReason) { cut <- v })
		if complete, err := b.read(64 << 10); !complete || err != nil {
			t.Fatal(complete, err)
		}
		first := b.newReader(b.received, nil, memory.FromUpstream)
		second := b.newReader(b.received, nil, memory.FromUpstream)
		_ = first.Close()
		_ = first.Close()
		other := &memory.Account{}
		other.Open(share.Client(&net.UnixAddr{}), nil)
		want := func() {
			for range 100 {
				other.TryAcquire(4 << 20)
				time.Sleep(time.Second)
			}
		}
		want()
		select {
		case v := <-cut:
			if v.Peer != memory.FromUpstream {
				t.Error(v)
			}
		default:
			t.Error("it is not waited for")
		}
		_ = second.Close()
		for len(cut) > 0 {
			<-cut
		}
		want()
		if len(cut) > 0 {
			t.Error("it is waited for without a reader")
		}
		b.close()
		other.Close()
	})
}
