package http2

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/cinch-layer/cinch/test/testenv"
)

// A scope may be reused only if nothing else has ended it or can still end it.
func TestReleasedScopes(t *testing.T) {
	var outer Scope
	foreign, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, parent := range []struct {
		context.Context
		end func()
	}{{&outer, func() { outer.End() }}, {foreign, cancel}} {
		var s, last Scope
		s.Begin(parent.Context)
		if !s.End() || s.End() {
			t.Errorf("%T: the first End alone has ended the scope", parent.Context)
		}
		last.Begin(parent.Context)
		if parent.end(); last.End() {
			t.Errorf("%T: the parent may still end the scope", parent.Context)
		}
	}
}

// sent sends a request. It returns the response, and the request for Release.
func sent(ctx context.Context, t *testing.T, c *ClientConn, body io.Reader, whole []byte) (*http.Response, *Sending) {
	t.Helper()
	r := request(ctx, t, "POST", "/echo", body)
	r.ContentLength = -1
	out, err := NewSending(r, whole)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Send(&out)
	if err != nil {
		t.Fatal(err)
	}
	return resp, &out
}

// The memory of a request is reused only after its end, and never if another goroutine may still use it.
func TestReleasedRequests(t *testing.T) {
	c := pair(t, echo, nil)
	body := []byte("hello")
	resp, out := sent(within(t), t, c, nil, body)
	got, err := io.ReadAll(resp.Body)
	if _ = resp.Body.Close(); string(got) != "hello" || err != nil || !out.Release() {
		t.Errorf("%q, %v, or not released", got, err)
	}

	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	hang := pair(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}, nil)
	resp, out = sent(ctx, t, hang, nil, body)
	if out.Release() {
		t.Error("released while it goes on")
	}
	cancel()
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the body of a cancelled request ends well")
	}
	if _ = resp.Body.Close(); out.Release() {
		t.Error("released, though the goroutine that cancels it may still run")
	}

	endless := &quiet{}
	defer endless.Close()
	early := pair(t, func(http.ResponseWriter, *http.Request) {}, nil)
	resp, out = sent(within(t), t, early, endless, nil)
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Error(err)
	}
	if _ = resp.Body.Close(); out.Release() {
		t.Error("released, though a goroutine still reads its body")
	}

	hang.PaceResets()
	hang.mu.Lock()
	hang.pacing.bucket = bucket{used: 60 * resetRate, at: time.Now()}
	hang.mu.Unlock()
	resp, out = sent(within(t), t, hang, nil, body)
	if _ = resp.Body.Close(); out.Release() {
		t.Error("released while its stream waits to be reset")
	}
}

// releaser permits the reuse of a request, or not.
type releaser func() bool

func (r releaser) Release() bool { return r() }

// A server reuses the memory of a request once the response has ended, if the handler permits it.
func TestReleasedCalls(t *testing.T) {
	for _, permit := range []bool{true, false} {
		var ended bool
		kept := make(chan *serverStream, 1)
		c := pair(t, func(w http.ResponseWriter, r *http.Request) {
			s := w.(*response).call
			echo(w, r)
			w.(ResponseWriter).WriteTrailers(nil, releaser(func() bool {
				s.c.mu.Lock()
				ended = s.handlerDone && s.localEnd
				s.c.mu.Unlock()
				kept <- s
				return permit
			}))
		}, nil)
		resp, _ := sent(within(t), t, c, nil, []byte("hello"))
		if got, err := io.ReadAll(resp.Body); string(got) != "hello" || err != nil || resp.Trailer.Get("X-End") != "EOF" {
			t.Errorf("%q, %v, %v", got, resp.Trailer, err)
		}
		s := <-kept
		if !ended {
			t.Error("released before the response has ended")
		}
		if !permit && s.request.Method != "POST" {
			t.Error("reused, though the handler does not permit that")
		}
	}
}

// A header in reused memory has no fields of the one before, and memory for many fields is not kept.
func TestReusedHeaders(t *testing.T) {
	var m headerMemory
	blockOf := func(names string) (b block) {
		for _, name := range strings.Split(names, "") {
			b.fields = append(b.fields, hpack.HeaderField{Name: name, Value: "of " + name})
		}
		return b
	}
	first, second, long := blockOf("ABA"), blockOf("C"), blockOf(strings.Repeat("A", maxReusedFields+1))
	if h := first.header(&m); len(h) != 2 || len(h["A"]) != 2 || h.Get("B") != "of B" {
		t.Error(h)
	}
	m.reset()
	if h := second.header(&m); len(h) != 1 || h.Get("C") != "of C" {
		t.Error(h)
	}
	m.reset()
	if n := testing.AllocsPerRun(10, func() {
		second.header(&m)
		m.reset()
	}); n > 0 && !testenv.RaceDetector {
		t.Errorf("%v allocations", n)
	}
	if h := long.header(&m); len(h["A"]) != maxReusedFields+1 || len(m.fields) > 0 || cap(m.values) > maxReusedFields {
		t.Errorf("%d values; memory for %d is kept", len(h["A"]), cap(m.values))
	}
}
