package http

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang/snappy"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// startPair starts a far gateway in front of an upstream, and a near one in front of that.
func startPair(t *testing.T, upstream string, change func(near, far *Config)) (near, far *rig) {
	t.Helper()
	replies := policy.MessageRule{Name: "replies", Setting: setting(t, "zstd"), Direction: policy.Reply, MinSize: 64}
	far = start(t, upstream, func(c *Config) {
		c.Peers, c.UpstreamReads = true, nil
		if change != nil {
			change(&Config{}, c)
		}
	}, policy.MessageRule{Name: "requests", Auto: true, Direction: policy.Request}, replies)
	near = start(t, strings.TrimPrefix(far.url, "http://"), func(c *Config) {
		c.Link, c.UpstreamReads = PerClient, nil
		if change != nil {
			change(c, &Config{})
		}
	}, policy.MessageRule{Name: "requests", Auto: true, Direction: policy.Request, MinSize: 64})
	return near, far
}

// client returns a client that uses a single connection.
func client(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{DisableCompression: true, MaxConnsPerHost: 1}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func send(t *testing.T, c *http.Client, method, to string, body []byte, headers ...string) (*http.Response, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, to, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, got
}

// untilCarried sends requests until one was sent with history.
func (r *rig) untilCarried(c *http.Client) {
	r.t.Helper()
	testenv.Eventually(r.t, "something goes with history", func() bool { // until then the link is being opened
		send(r.t, c, http.MethodPost, r.url+"/warm", text)
		return r.stats.Snapshot().Total.Sealed > 0
	})
}

// echo answers with the body and the header fields of the request, the latter with the prefix X-Got-.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	for name, values := range r.Header {
		w.Header()["X-Got-"+name] = values
	}
	w.Header().Set("Etag", `"strong"`)
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	_, _ = w.Write(body)
}

// Bodies are sent between two gateways with history, both ways, and arrive unchanged.
func TestPair(t *testing.T) {
	near, far := startPair(t, startUpstream(t, http.HandlerFunc(echo)), nil)
	c := client(t)
	near.untilCarried(c)
	for _, x := range []struct {
		coding string
		body   []byte
		exact  bool
	}{
		{"", text, true},
		{"", []byte(strings.Repeat("other ", 5000)), true},
		{"br", text, true},
		{"snappy", snappy.Encode(nil, text), false},
		{"gzip", gzipped(text), false},
		{"gzip", text, true},
		{"", nil, true},
	} {
		resp, got := send(t, c, http.MethodPost, near.url, x.body, "Content-Encoding", x.coding, "Authorization", "Bearer x")
		if resp.StatusCode != 200 || resp.Header.Get("X-Got-Content-Encoding") != x.coding || resp.Header.Get("Etag") != `"strong"` {
			t.Errorf("%q: %s, %v", x.coding, resp.Status, resp.Header)
		}
		if x.exact && !bytes.Equal(got, x.body) || !x.exact && !bytes.Equal(decoded(t, x.coding, got), text) {
			t.Errorf("%q: other bytes", x.coding)
		}
		for name := range resp.Header {
			if strings.Contains(name, "Cinch") {
				t.Errorf("%q: %s is seen outside", x.coding, name)
			}
		}
	}
	signed := gzipped(text)
	if resp, got := send(t, c, http.MethodPut, near.url, signed, "Content-Encoding", "gzip", "Content-Digest", "x"); !bytes.Equal(got, signed) || resp.Header.Get("X-Got-Content-Digest") != "x" {
		t.Error("a signed body was changed")
	}
	before := near.stats.Snapshot().Wire
	for range 20 {
		send(t, c, http.MethodPost, near.url, text)
	}
	after := near.stats.Snapshot().Wire
	if n := after.Upstream.SentBytes - before.Upstream.SentBytes; n > 20*500 {
		t.Errorf("%d bytes went to the far gateway for 20 times the same body of %d", n, len(text))
	}
	if n := after.Upstream.ReceivedBytes - before.Upstream.ReceivedBytes; n > 20*600 {
		t.Errorf("%d bytes came from the far gateway", n)
	}
	if s := far.stats.Snapshot(); s.Total.Opened == 0 {
		t.Errorf("%+v", s.Total)
	}
}

// Many clients at a time get their own replies.
func TestPairConcurrently(t *testing.T) {
	near, _ := startPair(t, startUpstream(t, http.HandlerFunc(echo)), func(near, _ *Config) { near.Link = Shared })
	near.untilCarried(client(t))
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			c := client(t)
			for n := range 30 {
				body := bytes.Repeat(fmt.Appendf(nil, "client %d, body %d. ", i, n), 100+n)
				if _, got := send(t, c, http.MethodPost, near.url, body); !bytes.Equal(got, body) {
					t.Errorf("client %d, body %d: %d of %d bytes", i, n, len(got), len(body))
				}
			}
		})
	}
	wg.Wait()
}

// An upstream that is no gateway sees no link, and a far gateway without memory for histories only compresses less.
func TestNoPair(t *testing.T) {
	handler, got := recorder(nil)
	near := start(t, startUpstream(t, handler), func(c *Config) { c.Link = PerClient }, policy.MessageRule{Auto: true})
	c := client(t)
	for range 5 {
		send(t, c, http.MethodPost, near.url, text)
		if s := <-got; s.Method != http.MethodPost || s.Header.Get(linkHeader) != "" {
			t.Errorf("%s %v", s.Method, s.Header)
		}
	}
	poor, _ := startPair(t, startUpstream(t, http.HandlerFunc(echo)), func(_, far *Config) {
		far.Links = &link.Config{Setting: setting(t, "zstd-3"), History: 1 << 16}
	})
	c = client(t)
	poor.untilCarried(c)
	for range 5 {
		if _, back := send(t, c, http.MethodPost, poor.url, text); !bytes.Equal(back, text) {
			t.Error("other bytes")
		}
	}
}

// linkTo opens a link to a far gateway, as another near gateway would, with HTTP/2 inside.
func linkTo(t *testing.T, far *rig) *http2.ClientConn {
	t.Helper()
	e := link.NewEndpoint(link.Config{
		Name: "stranger", Setting: setting(t, "zstd-1"), Extensions: lanes.Extensions(),
		Engine: codec.New(codec.Options{}), Stats: gateway.NewStats("stranger", "http"),
	})
	t.Cleanup(e.Close)
	raw, err := net.Dial("tcp", strings.TrimPrefix(far.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	carried, err := e.Enter(t.Context(), raw, "")
	if err != nil {
		t.Fatal(err)
	}
	c := http2.NewClientConn(carried, http2.ClientConfig{Window: upstreamWindow, ConnWindow: upstreamConnWindow, MaxHeader: DefaultMaxHeader})
	t.Cleanup(c.Close)
	return c
}

// A peer that sends bodies that no gateway makes gets an error for each. The upstream sees none of them, and the link
// stays usable.
func TestHostilePeer(t *testing.T) {
	handler, got := recorder(nil)
	far := start(t, startUpstream(t, handler), func(c *Config) { c.Peers, c.MaxOpen = true, 1<<20 }, policy.MessageRule{Auto: true})
	c := linkTo(t, far)
	for _, hostile := range []struct {
		name, coding, opened string
		body                 []byte
		want                 int
	}{
		{"nonsense", lanesCoding, "", []byte("nonsense that is no body"), http.StatusBadGateway},
		{"a lane that there is not", lanesCoding, "", []byte{1, 0, 0x21, 1, 0, 0, 0, 0, 1, 0}, http.StatusBadGateway},
		{"a bomb", lanesCoding, "", []byte{1, 0, 0x21, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0, 1, 0}, http.StatusRequestEntityTooLarge},
		{"longer than max_open", "", "opened gzip", make([]byte, 1<<20+1), http.StatusRequestEntityTooLarge},
		{"a coding that can't be restored", "", "opened br", []byte("some text"), http.StatusBadGateway},
	} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/", bytes.NewReader(hostile.body))
		r.Header = http.Header{linkHeader: {formatTerms(1 << 20)}}
		setCoding(r.Header, hostile.coding)
		if hostile.opened != "" {
			r.Header[codingHeader] = []string{hostile.opened}
		}
		resp, err := c.RoundTrip(r)
		if err != nil {
			t.Fatal(hostile.name, err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != hostile.want {
			t.Errorf("%s: %s", hostile.name, resp.Status)
		}
	}
	if len(got) > 0 {
		t.Errorf("the upstream got %d", len(got))
	}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/", bytes.NewReader(text))
	resp, err := c.RoundTrip(r)
	if err != nil || resp.StatusCode != 200 {
		t.Fatal("the link does not go on", resp, err)
	}
	_ = resp.Body.Close()
	if s := <-got; !bytes.Equal(s.plain(t), text) {
		t.Errorf("%d bytes", len(s.body))
	}
}

// The fields and the coding of gateways have no meaning if others send them: the far gateway forwards or deletes what
// a client or an upstream has sent under these names, and does not act on it.
func TestPeerFieldsOfOthers(t *testing.T) {
	var seen http.Header
	upstream := startUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		h := w.Header()
		h[lanes.Header], h[lanes.OpenedHeader], h[codingHeader] = []string{"44,44"}, []string{"7"}, []string{openedMark + "gzip"}
		h["Content-Encoding"] = []string{lanesCoding}
		_, _ = w.Write([]byte("the reply"))
	}))
	near, _ := startPair(t, upstream, nil)
	c := client(t)
	near.untilCarried(c)
	resp, got := send(t, c, http.MethodPost, near.url, text, lanes.Header, "0,44", codingHeader, openedMark+"gzip", linkHeader, "1", "Content-Encoding", lanesCoding)
	if string(got) != "the reply" || resp.Header.Get("Content-Encoding") != lanesCoding {
		t.Errorf("%q, %v", got, resp.Header)
	}
	if seen.Get("Content-Encoding") != lanesCoding {
		t.Errorf("the upstream got %v", seen)
	}
	resp, got = send(t, c, http.MethodPost, near.url, text, lanes.Header, "0,44", lanes.OpenedHeader, "9", codingHeader, openedMark+"gzip", linkHeader, "1")
	if string(got) != "the reply" || resp.Header.Get("Content-Encoding") != lanesCoding {
		t.Errorf("over the link: %q, %v", got, resp.Header)
	}
	for _, h := range []http.Header{seen, resp.Header} {
		if len(h[lanes.Header])+len(h[lanes.OpenedHeader])+len(h[codingHeader])+len(h[linkHeader]) > 0 {
			t.Errorf("fields of gateways passed: %v", h)
		}
	}
}

// balancer forwards connections to its current target.
type balancer struct {
	net.Listener
	to atomic.Value // string
}

func startBalancer(t *testing.T, to string) *balancer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{Listener: l}
	b.to.Store(to)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go b.forward(c)
		}
	}()
	return b
}

func (b *balancer) forward(c net.Conn) {
	defer c.Close()
	up, err := net.Dial("tcp", b.to.Load().(string))
	if err != nil {
		return
	}
	defer up.Close()
	go func() {
		_, _ = io.Copy(up, c)
		_ = up.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(c, up)
}

// Replacing a far gateway under load makes no request fail: it announces in its replies that connections end.
func TestFarIsReplaced(t *testing.T) {
	upstream := startUpstream(t, http.HandlerFunc(echo))
	rules := policy.MessageRule{Name: "requests", Auto: true}
	peers := func(c *Config) { c.Peers, c.UpstreamReads, c.Grace = true, nil, 3*time.Second } // no request begins later than 3 s after a reply
	far, next := start(t, upstream, peers, rules), start(t, upstream, peers, rules)
	b := startBalancer(t, strings.TrimPrefix(far.url, "http://"))
	near := start(t, b.Addr().String(), func(c *Config) { c.Link, c.UpstreamReads = PerClient, nil }, rules)
	c := client(t)
	near.untilCarried(c)
	b.to.Store(strings.TrimPrefix(next.url, "http://"))
	drained := make(chan error, 1)
	go func() { drained <- far.Shutdown(context.Background()) }()
	for over := false; !over; {
		select {
		case err := <-drained:
			over = true
			if err != nil {
				t.Error(err)
			}
		default:
		}
		if resp, back := send(t, c, http.MethodPost, near.url, text); resp.StatusCode != 200 || !bytes.Equal(back, text) {
			t.Errorf("%s, %d bytes", resp.Status, len(back))
		}
	}
	for next.stats.Snapshot().Total.Opened == 0 {
		send(t, c, http.MethodPost, near.url, text)
	}
}

// A message that is encoded by reference to a record, while its parts make more records than are kept
// (docs/PROTO.md, 8.8), arrives like any other, and the connections of other clients go on.
func TestPairForgetsRecords(t *testing.T) {
	near, far := startPair(t, startUpstream(t, http.HandlerFunc(echo)), nil)
	c, other := client(t), client(t)
	near.untilCarried(c)
	near.untilCarried(other)
	message := codectest.ForgottenRecords()
	for range 2 {
		if _, got := send(t, c, http.MethodPost, near.url, message, "Content-Type", "application/x-protobuf"); !bytes.Equal(got, message) {
			t.Error("other bytes")
		}
		if _, got := send(t, other, http.MethodPost, near.url, text); !bytes.Equal(got, text) {
			t.Error("other bytes for another client")
		}
	}
	for name, r := range map[string]*rig{"near": near, "far": far} {
		if errors := r.stats.Snapshot().Errors; len(errors) > 0 {
			t.Errorf("%s: %v", name, errors)
		}
	}
}

// A body that one gateway would send with history, but that the other does not decompress, is sent as by a single
// gateway.
func TestPairOfDifferentLimits(t *testing.T) {
	long := bytes.Repeat(text, 3)
	noise := make([]byte, 2*len(text)) // becomes longer when compressed
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	for _, c := range []struct {
		name      string
		near, far int // max_open
		coding    string
		body      []byte
	}{
		{"a request above the far limit", 32 << 20, len(long) - 1, "", long},
		{"a request at the far limit", 32 << 20, len(long), "", long},
		{"a request that decompresses to more than the far limit", 32 << 20, len(long) - 1, "gzip", gzipped(long)},
		{"a reply above the near limit", len(long) - 1, 32 << 20, "", long},
		{"a reply at the near limit", len(long), 32 << 20, "", long},
		{"noise at both limits", len(noise), len(noise), "", noise},
		{"a message above the far limit", 32 << 20, len(series(0)) - 1, "protobuf", series(0)},
		{"a reply with a message above the near limit", len(series(0)) - 1, 32 << 20, "protobuf", series(0)},
		{"nothing, compressed", 32 << 20, 32 << 20, "gzip", gzipped(nil)},
	} {
		t.Run(c.name, func(t *testing.T) {
			near, far := startPair(t, startUpstream(t, http.HandlerFunc(echo)), func(near, far *Config) { near.MaxOpen, far.MaxOpen = c.near, c.far })
			one := client(t)
			near.untilCarried(one)
			for range 3 { // the connection stays usable
				fields := []string{"Content-Encoding", c.coding}
				if c.coding == "protobuf" {
					fields = []string{"Content-Type", "application/x-protobuf"}
				}
				resp, got := send(t, one, http.MethodPost, near.url, c.body, fields...)
				if resp.StatusCode != 200 || !bytes.Equal(got, c.body) {
					t.Errorf("%s, %d of %d bytes", resp.Status, len(got), len(c.body))
				}
				before := near.stats.Snapshot().Total.Sealed
				send(t, one, http.MethodPost, near.url, text)
				if near.stats.Snapshot().Total.Sealed == before {
					t.Error("the next body goes without history")
				}
			}
			for name, r := range map[string]*rig{"near": near, "far": far} {
				if errors := r.stats.Snapshot().Errors; len(errors) > 0 {
					t.Errorf("%s: %v", name, errors)
				}
			}
		})
	}
}

// Links work over TLS too, and clients don't notice when one ends between two exchanges.
func TestPairByTLS(t *testing.T) {
	lent := httptest.NewTLSServer(nil)
	defer lent.Close()
	rules := policy.MessageRule{Name: "requests", Auto: true}
	far := start(t, startUpstream(t, http.HandlerFunc(echo)), func(c *Config) {
		c.Peers, c.UpstreamReads, c.TLS = true, nil, &tls.Config{Certificates: lent.TLS.Certificates}
	}, rules)
	b := startBalancer(t, strings.TrimPrefix(far.url, "http://"))
	near := start(t, b.Addr().String(), func(c *Config) {
		c.Link, c.UpstreamReads = Shared, nil
		c.Upstream.TLS = &tls.Config{InsecureSkipVerify: true}
	}, rules)
	c := client(t)
	near.untilCarried(c)
	open, ended := far.stats.Snapshot().Connections.Open, int64(0)
	for _, h := range near.common.links.Conns() {
		h.Conn.Close()
		ended++
	}
	testenv.Eventually(t, "the far gateway sees the end", func() bool { return far.stats.Snapshot().Connections.Open <= open-ended })
	before := far.stats.Snapshot().Total.Opened
	testenv.Eventually(t, "a link again", func() bool {
		if resp, got := send(t, c, http.MethodPost, near.url, text); resp.StatusCode != 200 || !bytes.Equal(got, text) {
			t.Errorf("%s, %d bytes", resp.Status, len(got))
		}
		return far.stats.Snapshot().Total.Opened > before
	})
}
