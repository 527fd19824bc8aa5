package http

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A link without exchanges lasts as long as the near gateway keeps it.
func TestLinkWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := testenv.Pipe()
		c := Config{Name: "test", Stats: gateway.NewStats("test", "http"), Peers: true, Links: &link.Config{}, Log: slog.New(slog.DiscardHandler)}
		c.Requests, c.Replies = memory.NewBudget(1<<20), memory.NewBudget(1<<20)
		g := NewGateway(c)
		s := newSession(g, here)
		ended := make(chan struct{})
		go func() { defer close(ended); s.Run() }()
		e := link.NewEndpoint(link.Config{Name: "near", Engine: codec.New(codec.Options{}), Extensions: lanes.Extensions(), Stats: gateway.NewStats("near", "http")})
		carried, err := e.Enter(t.Context(), there)
		if err != nil {
			t.Fatal(err)
		}
		near := http2.NewClientConn(carried, http2.ClientConfig{Window: upstreamWindow, ConnWindow: upstreamConnWindow, MaxHeader: DefaultMaxHeader})
		if time.Sleep(linkIdle); near.Ended() {
			t.Error("the link has ended before the near gateway would end it")
		}
		if time.Sleep(2 * time.Minute); !near.Ended() {
			t.Error("the far gateway keeps an unused link")
		}
		near.Close()
		<-ended
		e.Close()
		_ = g.Shutdown(t.Context())
	})
}

// A far gateway without memory for a request's headers does not read its body. The link goes on.
func TestNoMemoryForHeadersOverLink(t *testing.T) {
	near, _ := startPair(t, startUpstream(t, http.HandlerFunc(echo)), func(_, far *Config) {
		far.Requests = memory.NewBudget(16 << 10)
	})
	c := client(t)
	near.untilCarried(c)
	for i := range 3 {
		lost := bytes.Repeat(fmt.Appendf(nil, "This is number %d of those that are lost. ", i), 100)
		if resp, _ := send(t, c, http.MethodPost, near.url, lost, "X-Large", strings.Repeat("x", 20<<10)); resp.StatusCode != http.StatusServiceUnavailable {
			t.Error(resp.Status)
		}
		if resp, got := send(t, c, http.MethodPost, near.url, lost); resp.StatusCode != 200 || !bytes.Equal(got, lost) {
			t.Errorf("%s: %s", resp.Status, got)
		}
	}
}

// When the reply begins, a request that was sent whole takes no memory any more: a long poll may take hours.
func TestRequestMemoryDuringReply(t *testing.T) {
	end := make(chan struct{})
	upstream := startUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		if r.URL.Path == "/poll" {
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			<-end
		}
	}))
	t.Cleanup(func() { close(end) })
	budgets := map[string]*memory.Budget{"one": memory.NewBudget(64 << 20), "near": memory.NewBudget(64 << 20), "far": memory.NewBudget(64 << 20)}
	one := start(t, upstream, func(c *Config) { c.Requests, c.UpstreamReads = budgets["one"], []string{"zstd"} }, requestsTo(t, "zstd"))
	near, _ := startPair(t, upstream, func(near, far *Config) { near.Requests, far.Requests = budgets["near"], budgets["far"] })
	for _, g := range []*rig{one, near} {
		c := client(t)
		if g == near {
			near.untilCarried(c)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+"/poll", bytes.NewReader(bytes.Repeat(text, 400)))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
	}
	for name, b := range budgets {
		testenv.Eventually(t, name+" holds nothing of the requests", func() bool { return b.InUse() == 0 })
	}
}

// A client that holds memory that others wait for, and makes no progress, is cut off, in both directions.
func TestStalledClients(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as patience with clients")
	}
	large := bytes.Repeat(text, 400)
	upstream := startUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Length", fmt.Sprint(len(large)))
		_, _ = w.Write(large)
	}))
	for name, begin := range map[string]string{
		"a request that does not come":         fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(large), large[:1<<20]),
		"a reply that is not read":             "GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n",
		"a request that does not come, HTTP/2": inFrames(large[:1<<20], ":method", "POST", "content-length", fmt.Sprint(len(large))),
		"a reply that is not read, HTTP/2":     inFrames(nil, ":method", "GET", "accept-encoding", "gzip"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stalls(t, upstream, begin)
		})
	}
}

// stalls begins an exchange that makes no further progress, and waits until it is cut off.
func stalls(t *testing.T, upstream, begin string) {
	t.Helper()
	budget := memory.NewBudget(24 << 20)
	noGain := policy.MessageRule{Name: "replies", Setting: setting(t, "gzip"), Direction: policy.Reply, MinGain: 0.9999}
	g := start(t, upstream, func(c *Config) { c.Requests, c.Replies = budget, budget }, requestsTo(t, "zstd"), noGain)
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	go func() { _, _ = io.WriteString(conn, begin) }()
	other := &memory.Account{}
	other.Open(budget.Share("other").Client(gateway.BudgetAddress(conn)), nil)
	defer other.Close()
	testenv.Eventually(t, "it is cut off", func() bool {
		other.TryAcquire(64 << 20)
		return g.stats.Snapshot().Errors["stalled"] > 0
	})
	testenv.Eventually(t, "it holds nothing", func() bool { return budget.InUse() == 0 })
}

// inFrames returns the beginning of an HTTP/2 connection, with a request whose body, if there is one, does
// not end.
func inFrames(body []byte, fields ...string) string {
	var out, block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	all := append([]string{":scheme", "http", ":path", "/", ":authority", "x"}, fields...)
	for i := 0; i < len(all); i += 2 {
		_ = enc.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1]})
	}
	out.WriteString(xhttp2.ClientPreface)
	f := xhttp2.NewFramer(&out, nil)
	_ = f.WriteSettings()
	_ = f.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: body == nil})
	for piece := range slices.Chunk(body, 16<<10) {
		_ = f.WriteData(1, false, piece)
	}
	return out.String()
}
