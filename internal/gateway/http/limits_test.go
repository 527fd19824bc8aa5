package http

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// upgradedTo returns a connection to a far gateway that was upgraded to pairProtocol.
func upgradedTo(t *testing.T, far *rig) net.Conn {
	t.Helper()
	near := far.cfg
	near.Stats = nil // as another gateway
	p := newPeerGateway(&near, far.common.histories)
	p.up.Address = strings.TrimPrefix(far.url, "http://")
	conn, _, _, err := p.upgraded(t.Context(), minWindow)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// A connection between gateways has one exchange at a time, even if a hostile near gateway tries HTTP/2, with
// which several goroutines would use one history.
func TestCarriedIsHTTP1(t *testing.T) {
	far := start(t, startUpstream(t, http.HandlerFunc(echo)), func(c *Config) { c.Peers = true }, repliesTo(t, "zstd"))
	conn := upgradedTo(t, far)
	h2 := &http.Transport{Protocols: &http.Protocols{}, DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
	h2.Protocols.SetUnencryptedHTTP2(true)
	defer h2.CloseIdleConnections()
	var wg sync.WaitGroup
	for i := range 20 {
		if i == 1 {
			wg.Wait() // all others use the connection of the first
		}
		wg.Go(func() {
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/", bytes.NewReader(text))
			if resp, err := h2.RoundTrip(r); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				t.Error("HTTP/2 is spoken", resp.Status)
			}
		})
	}
	wg.Wait()
}

// A connection between gateways may wait as long for its first exchange as for any other.
func TestCarriedWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := testenv.Pipe()
		c := Config{Name: "test", Stats: gateway.NewStats("test", "http"), Peers: true, Log: slog.New(slog.DiscardHandler)}
		c.Requests, c.Replies = memory.NewBudget(1<<20), memory.NewBudget(1<<20)
		g := NewGateway(c)
		s := newSession(g, here)
		ended := make(chan struct{})
		go func() { defer close(ended); s.Run() }()
		from := bufio.NewReader(there)
		for _, request := range []struct {
			text string
			want int
		}{
			{fmt.Sprintf("Connection: Upgrade\r\nUpgrade: %s\r\n%s: %s\r\n", pairProtocol, pairHeader, formatTerms(minWindow)), http.StatusSwitchingProtocols},
			{"", http.StatusBadGateway}, // there is no upstream
		} {
			_, _ = io.WriteString(there, "GET / HTTP/1.1\r\nHost: x\r\n"+request.text+"\r\n")
			resp, err := http.ReadResponse(from, nil)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != request.want {
				t.Errorf("%s, want %d", resp.Status, request.want)
			}
			time.Sleep(headerTimeout + 2*time.Second)
		}
		_ = there.Close()
		<-ended
		_ = g.Shutdown(t.Context())
	})
}

// A far gateway without memory for a request's headers does not read its body, so the connection has to end:
// the histories would differ.
func TestNoMemoryForHeadersOfCarried(t *testing.T) {
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
