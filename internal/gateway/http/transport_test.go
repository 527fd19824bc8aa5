package http

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
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

// writeCounter counts the calls that write to a connection.
type writeCounter struct {
	net.Conn
	writes *atomic.Int64
}

func (c writeCounter) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// A short body that has arrived goes to the upstream together with the header, whether it is changed or not. One that
// has not arrived does not delay the header.
func TestWritesOfARequest(t *testing.T) {
	for _, x := range []struct {
		name   string
		rule   string
		late   bool // the body is sent when the upstream has the header
		writes int64
	}{
		{"unchanged", "snappy", false, 1},
		{"compressed", "zstd", false, 1},
		{"late", "snappy", true, 2},
	} {
		t.Run(x.name, func(t *testing.T) {
			headers := make(chan int64, 1)
			addr := startUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				headers <- r.ContentLength
				if body, err := io.ReadAll(r.Body); err != nil || !bytes.Equal((seen{r, body}).plain(t), text[:1024]) {
					t.Errorf("%d bytes, %v", len(body), err)
				}
				_, _ = io.WriteString(w, "ok")
			}))
			g := start(t, addr, nil, requestsTo(t, x.rule))
			var writes atomic.Int64
			dial := g.common.transport.dial
			g.common.transport.dial = func(ctx context.Context) (net.Conn, error) {
				c, err := dial(ctx)
				return writeCounter{c, &writes}, err
			}
			c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			request, buf := rawPost(text[:1024]), make([]byte, 4<<10)
			if x.late {
				head := len(request) - 1024
				if _, err := c.Write(request[:head]); err != nil {
					t.Fatal(err)
				}
				request = request[head:]
				<-headers
			}
			if _, err := c.Write(request); err != nil {
				t.Fatal(err)
			}
			if err := readEnd(c, buf, []byte("\r\n\r\nok")); err != nil {
				t.Fatal(err)
			}
			if n := writes.Load(); n != x.writes {
				t.Errorf("%d writes, want %d", n, x.writes)
			}
		})
	}
}

// brokenAfter is a connection whose writes fail after the first one.
type brokenAfter struct {
	net.Conn
	written bool
}

func (c *brokenAfter) Write(p []byte) (int, error) {
	if c.written {
		return 0, io.ErrClosedPipe
	}
	c.written = true
	return c.Conn.Write(p)
}

// A short request of which nothing could be written to a connection is sent over another one.
func TestShortBodyOverAnotherConnection(t *testing.T) {
	handler, got := recorder(nil)
	g := start(t, startUpstream(t, handler), nil)
	dial := g.common.transport.dial
	g.common.transport.dial = func(ctx context.Context) (net.Conn, error) {
		c, err := dial(ctx)
		return &brokenAfter{Conn: c}, err
	}
	for range 3 {
		if resp := post(t, g.url, bytes.NewReader(text[:1024])); resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status)
		}
		if r := <-got; !bytes.Equal(r.body, text[:1024]) {
			t.Errorf("%d bytes", len(r.body))
		}
	}
}
