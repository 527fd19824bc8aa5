package http

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/zstd"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
	"github.com/cinch-layer/cinch/internal/policy"
)

// rig is a gateway in front of a test server.
type rig struct {
	*Gateway
	t               *testing.T
	stats           *gateway.Stats
	requests, reply *memory.Budget
	url             string
}

func setting(t *testing.T, text string) codec.Setting {
	t.Helper()
	s, err := codec.ParseSetting(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// requestsTo returns a rule for the bodies of requests, repliesTo one for those of replies.
func requestsTo(t *testing.T, s string) policy.MessageRule {
	return policy.MessageRule{Name: "requests", Setting: setting(t, s), MinSize: 64, Direction: policy.Request}
}

func repliesTo(t *testing.T, s string) policy.MessageRule {
	return policy.MessageRule{Name: "replies", Setting: setting(t, s), MinSize: 64, Direction: policy.Reply}
}

// startUpstream starts a server of the standard library for handler, and returns its address.
func startUpstream(t *testing.T, handler http.Handler) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// start starts a gateway in front of an upstream; change may be nil.
func start(t *testing.T, upstream string, change func(*Config), rules ...policy.MessageRule) *rig {
	t.Helper()
	up, err := endpoint.ParseUpstream("http://"+upstream, "80")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, stats: gateway.NewStats("test", "http"), requests: memory.NewBudget(64 << 20), reply: memory.NewBudget(64 << 20)}
	c := Config{
		Name: "test", Upstream: up, UpstreamReads: []string{"zstd", "gzip"}, MaxCompress: 32 << 20, MaxOpen: 32 << 20,
		Requests: r.requests, Replies: r.reply, Stats: r.stats, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	if change != nil {
		change(&c)
	}
	if c.Links == nil && (c.Peers || c.Link != NoHistory) {
		c.Links = &link.Config{Setting: setting(t, "zstd-3")}
	}
	r.Gateway = NewGateway(c)
	p, err := policy.NewMessages(rules)
	if err != nil {
		t.Fatal(err)
	}
	r.SetPolicy(p)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.url = "http://" + l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- r.Serve(l) }()
	t.Cleanup(func() { r.stop(served) })
	return r
}

// stop drains the gateway, and checks that no memory is held.
func (r *rig) stop(served <-chan error) {
	http.DefaultClient.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.Shutdown(ctx); err != nil {
		r.t.Error(err)
	}
	if err := <-served; err != nil {
		r.t.Error(err)
	}
	if r.requests.InUse() != 0 || r.reply.InUse() != 0 {
		r.t.Errorf("held: %d, %d bytes", r.requests.InUse(), r.reply.InUse())
	}
}

// roundTripper is a transport of one function.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// seen is a request as a server received it.
type seen struct {
	*http.Request
	body []byte // with its coding
}

// plain returns the body without its coding.
func (s seen) plain(t *testing.T) []byte {
	t.Helper()
	return decoded(t, s.Header.Get("Content-Encoding"), s.body)
}

func decoded(t *testing.T, coding string, b []byte) []byte {
	t.Helper()
	var r io.Reader = bytes.NewReader(b)
	var err error
	switch coding {
	case "zstd":
		r, err = zstd.NewReader(r)
	case "gzip":
		r, err = gzip.NewReader(r)
	case "snappy":
		out, err := snappy.Decode(nil, b)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if err != nil {
		t.Fatal(coding, err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(coding, err)
	}
	return out
}

// recorder returns a handler that calls answer and sends the requests that it receives to the channel.
func recorder(answer http.HandlerFunc) (http.Handler, <-chan seen) {
	got := make(chan seen, 100)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		got <- seen{r, body}
		if answer != nil {
			answer(w, r)
		}
	}), got
}

func post(t *testing.T, to string, body io.Reader, headers ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return do(t, r)
}

func do(t *testing.T, r *http.Request) *http.Response {
	t.Helper()
	resp, err := (&http.Transport{DisableCompression: true, DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

var text = []byte(strings.Repeat("What goes over the wire costs money. ", 400))
