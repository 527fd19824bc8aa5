package http

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/wire/peer"
	"github.com/cinch-layer/cinch/test/testenv"
)

// series returns a message of Protocol Buffers like those of Prometheus' remote write: series with labels and one
// value each.
func series(round int) (b []byte) {
	for i := range 200 {
		one := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), fmt.Appendf(nil, "pod-%d-of-some-deployment", i))
		one = protowire.AppendFixed64(protowire.AppendTag(one, 2, protowire.Fixed64Type), uint64(1000*i+round))
		b = protowire.AppendBytes(protowire.AppendTag(b, 1, protowire.BytesType), one)
	}
	return b
}

// Messages of Protocol Buffers go in lanes, both ways: a message that differs from the last one in its numbers takes a
// few hundred bytes.
func TestMessagesInLanes(t *testing.T) {
	near, far := startPair(t, startUpstream(t, http.HandlerFunc(echo)), func(near, far *Config) {})
	c := client(t)
	near.untilCarried(c)
	exchange := func(round int) {
		body := series(round)
		if _, got := send(t, c, http.MethodPost, near.url, body, "Content-Type", "application/x-protobuf"); !bytes.Equal(got, body) {
			t.Errorf("round %d: %d of %d bytes", round, len(got), len(body))
		}
	}
	for round := range 5 { // until lanes are open, and have carried such messages
		exchange(round)
	}
	before := near.stats.Snapshot().Wire
	for round := 5; round < 15; round++ {
		exchange(round)
	}
	after := near.stats.Snapshot().Wire
	sent, received := after.Upstream.SentBytes-before.Upstream.SentBytes, after.Upstream.ReceivedBytes-before.Upstream.ReceivedBytes
	t.Logf("%d bytes for each of 10 requests of %d, %d for each reply", sent/10, len(series(0)), received/10)
	if sent > 10*1500 || received > 10*1500 {
		t.Error("that is no session")
	}
	for name, r := range map[string]*rig{"near": near, "far": far} {
		if errors := r.stats.Snapshot().Errors; len(errors) > 0 {
			t.Errorf("%s: %v", name, errors)
		}
	}
}

// A body of unknown length goes over the link while it arrives, compressed: its first bytes arrive before its last are
// sent.
func TestStreamOverLink(t *testing.T) {
	arrived := make(chan int64, 1)
	first := make(chan struct{})
	near, _ := startPair(t, startUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength >= 0 { // while the link is being opened
			_, _ = io.Copy(io.Discard, r.Body)
			return
		}
		n, _ := io.ReadFull(r.Body, make([]byte, 1000))
		close(first)
		rest, _ := io.Copy(io.Discard, r.Body)
		arrived <- int64(n) + rest
	})), nil)
	c := client(t)
	near.untilCarried(c)
	before := near.stats.Snapshot().Wire.Upstream.SentBytes
	in, out := io.Pipe()
	const size = 8 << 20
	go func() {
		_, _ = out.Write(text[:2000])
		<-first
		for sent := 2000; sent < size; sent += len(text) {
			_, _ = out.Write(text[:min(len(text), size-sent)])
		}
		_ = out.Close()
	}()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, near.url, in)
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if n := <-arrived; n != size || resp.StatusCode != 200 {
		t.Errorf("%s, %d of %d bytes", resp.Status, n, size)
	}
	if n := near.stats.Snapshot().Wire.Upstream.SentBytes - before; n > size/100 {
		t.Errorf("%d bytes were sent for %d", n, size)
	}
}

// Without a link, as with a gateway that has no peers, no field of the gateways reaches the client.
func TestNoLinkWithoutPeers(t *testing.T) {
	handler, got := recorder(echo)
	far := start(t, startUpstream(t, handler), nil, policy.MessageRule{Auto: true})
	near := start(t, strings.TrimPrefix(far.url, "http://"), func(c *Config) { c.Link = Shared }, policy.MessageRule{Auto: true})
	c := client(t)
	for range 5 {
		resp, _ := send(t, c, http.MethodPost, near.url, text)
		for name := range resp.Header {
			if strings.Contains(name, "Cinch") && !strings.HasPrefix(name, "X-Got-") {
				t.Errorf("the client sees %s", name)
			}
		}
		<-got
	}
	if len(near.common.links.Conns()) > 0 {
		t.Error("there is a link")
	}
}

// Three gateways in a row have two links, each with lanes of its own.
func TestLinksInARow(t *testing.T) {
	_, last := startPair(t, startUpstream(t, http.HandlerFunc(echo)), nil)
	rules := []policy.MessageRule{{Name: "requests", Auto: true, Direction: policy.Request}, {Name: "replies", Auto: true, Direction: policy.Reply}}
	middle := start(t, strings.TrimPrefix(last.url, "http://"), func(c *Config) { c.Peers, c.Link, c.UpstreamReads = true, Shared, nil }, rules...)
	first := start(t, strings.TrimPrefix(middle.url, "http://"), func(c *Config) { c.Link, c.UpstreamReads = PerClient, nil }, rules...)
	c := client(t)
	first.untilCarried(c)
	middle.untilCarried(client(t))
	for round := range 30 {
		body, kind := series(round), "application/x-protobuf"
		if round%3 == 2 {
			body, kind = text, "text/plain"
		}
		if resp, got := send(t, c, http.MethodPost, first.url, body, "Content-Type", kind); resp.StatusCode != 200 || !bytes.Equal(got, body) {
			t.Errorf("round %d: %s, %d of %d bytes", round, resp.Status, len(got), len(body))
		}
	}
	if n := last.common.lanes.Tally.Opened.Load(); n < 10 {
		t.Errorf("%d messages came over the second link in lanes", n)
	}
	for name, r := range map[string]*rig{"first": first, "middle": middle, "last": last} {
		if errors := r.stats.Snapshot().Errors; len(errors) > 0 {
			t.Errorf("%s: %v", name, errors)
		}
	}
}

// A request that finds all links full goes without one, and waits for none.
func TestFullLinksAreNotWaitedFor(t *testing.T) {
	var waiting atomic.Int32
	release := make(chan struct{})
	near, _ := startPair(t, startUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/poll" {
			waiting.Add(1)
			<-release
		}
		echo(w, r)
	})), func(near, far *Config) { near.Link, far.MaxStreams = Shared, 1 })
	near.untilCarried(client(t))
	var polls sync.WaitGroup
	defer polls.Wait()
	defer close(release)
	const number = 2 * maxLinks
	for range number {
		polls.Go(func() {
			if resp, _ := send(t, client(t), http.MethodPost, near.url+"/poll", text); resp.StatusCode != 200 {
				t.Error(resp.Status)
			}
		})
	}
	testenv.Eventually(t, "all wait", func() bool { return waiting.Load() == number })
	if resp, got := send(t, client(t), http.MethodPost, near.url, text); resp.StatusCode != 200 || !bytes.Equal(got, text) {
		t.Errorf("%s, %d bytes", resp.Status, len(got))
	}
}

// Clients that leave before they are answered cause no panic, and the link stays usable.
func TestClientsLeaveLink(t *testing.T) {
	var waiting atomic.Int32
	near, far := startPair(t, startUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			_, _ = io.Copy(io.Discard, r.Body) // else the server does not notice that the client leaves
			waiting.Add(1)
			<-r.Context().Done()
			return
		}
		echo(w, r)
	})), func(near, _ *Config) { near.Link = Shared })
	near.untilCarried(client(t))
	for i := range int32(10) {
		ctx, leave := context.WithCancel(t.Context())
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, near.url+"/wait", bytes.NewReader(series(int(i))))
		r.Header.Set("Content-Type", "application/x-protobuf")
		done := make(chan error)
		go func() {
			_, err := client(t).Do(r)
			done <- err
		}()
		testenv.Eventually(t, "the request arrives", func() bool { return waiting.Load() > i })
		leave()
		if err := <-done; err == nil {
			t.Error("an answer")
		}
	}
	for i := range 5 {
		if resp, got := send(t, client(t), http.MethodPost, near.url, series(i), "Content-Type", "application/x-protobuf"); resp.StatusCode != 200 || !bytes.Equal(got, series(i)) {
			t.Errorf("%s, %d bytes", resp.Status, len(got))
		}
	}
	for name, r := range map[string]*rig{"near": near, "far": far} {
		if n := r.stats.Snapshot().Errors["panic"]; n > 0 {
			t.Errorf("%s: %d panics", name, n)
		}
	}
}

// arrivedBody is a body that has arrived completely, and whose length is not declared.
type arrivedBody struct{ io.Reader }

func (arrivedBody) Complete() bool { return true }
func (arrivedBody) Close() error   { return nil }

// If a link ends between two steps of an exchange, neither bytes of the body nor trailers are lost.
func TestLinkEndsBeforeRequest(t *testing.T) {
	handler, got := recorder(nil)
	near, _ := startPair(t, startUpstream(t, handler), func(near, _ *Config) { near.Link = Shared })
	near.untilCarried(client(t))
	for len(got) > 0 {
		<-got
	}
	in, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, near.url, arrivedBody{bytes.NewReader(text)})
	in.ContentLength, in.Trailer = -1, http.Header{"X-End": {"the end"}}
	x := &exchange{common: &near.common, links: near.common.links, in: in}
	x.toFar.conn = x.links.take(&x.toFar.slot)
	x.toFar.conn.Conn.Close()
	testenv.Eventually(t, "it ends", x.toFar.conn.Conn.Ended)
	resp, err := x.sendOverLink(resender{near.common.transport}, in)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if s := <-got; !bytes.Equal(s.body, text) || s.Trailer.Get("X-End") != "the end" {
		t.Errorf("%d of %d bytes, trailers %v", len(s.body), len(text), s.Trailer)
	}
}

// A message in a lane whose length the near gateway does not declare is refused, and holds no memory afterwards.
func TestLanedWithoutLength(t *testing.T) {
	handler, got := recorder(nil)
	far := start(t, startUpstream(t, handler), func(c *Config) { c.Peers, c.Sample = true, true }, policy.MessageRule{Auto: true})
	c := linkTo(t, far)
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/", chunked{bytes.NewReader(series(0))})
	r.Header = http.Header{"Content-Type": {"application/x-protobuf"}, "Content-Encoding": {lanesCoding}}
	resp, err := c.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge || len(got) > 0 {
		t.Errorf("%s, %d requests", resp.Status, len(got))
	}
}

// A near gateway whose links have no lanes is disconnected.
func TestNearWithoutLanes(t *testing.T) {
	far := start(t, startUpstream(t, http.HandlerFunc(echo)), func(c *Config) { c.Peers = true }, policy.MessageRule{Auto: true})
	conn, err := net.Dial("tcp", strings.TrimPrefix(far.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = conn.Write(append(peer.Hello{Lowest: 1, Highest: 1, Codecs: 1}.Append(nil), byte(peer.Open)))
	if answer, _ := io.ReadAll(conn); len(answer) < peer.HelloLen {
		t.Errorf("%q", answer)
	}
	if n := far.stats.Snapshot().Errors["panic"]; n > 0 {
		t.Errorf("%d panics", n)
	}
}

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
		carried, err := e.Enter(t.Context(), there, "")
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

// A far gateway without memory for a request's headers does not read its body. The link stays usable.
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
