package http

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// The requests of HTTP/2 clients to an upstream of HTTP/1.1 are limited, and shared by address. Requests of other
// clients are limited by the number of their connections.
func TestConnectionsOfHTTP2Clients(t *testing.T) {
	const most = 4
	var waiting atomic.Int32
	upstream := startUpstream(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		waiting.Add(1)
		defer waiting.Add(-1)
		if r.URL.Path == "/wait" {
			<-r.Context().Done()
		}
	}))
	g := start(t, upstream, func(c *Config) { c.MaxConns = most })
	from := func(address string) *http.Transport {
		tr := twoClient(t)
		d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		tr.DialContext = d.DialContext
		return tr
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan int, 2*most)
	request := func(tr *http.Transport, path string) {
		status := 0
		defer func() { ended <- status }()
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, g.url+path, nil)
		resp, err := tr.RoundTrip(r)
		if err == nil {
			status = resp.StatusCode
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}
	greedy, other := from("127.0.0.1"), from("127.0.0.2")
	for i := range int32(most) { // one after the other, so that all are on one connection
		go request(greedy, "/wait")
		testenv.Eventually(t, "it waits", func() bool { return waiting.Load() == i+1 })
	}
	if request(greedy, "/"); <-ended != http.StatusServiceUnavailable {
		t.Error("one more request is let through")
	}
	if resp := post(t, g.url, nil); resp.StatusCode != 200 {
		t.Errorf("a client of HTTP/1.1: %s", resp.Status)
	}
	for range most / 2 { // until the other address has half
		go request(other, "/wait")
		if status := <-ended; status != http.StatusServiceUnavailable {
			t.Errorf("a displaced request: %d", status)
		}
		testenv.Eventually(t, "the other's waits", func() bool { return waiting.Load() == most })
	}
	if request(other, "/"); <-ended != http.StatusServiceUnavailable {
		t.Error("an address gets more than its share")
	}
	errors := g.stats.Snapshot().Errors
	if errors["displaced"] != most/2 || errors["connections"] != 2 {
		t.Errorf("%v", errors)
	}
	cancel()
	for range most {
		<-ended
	}
	testenv.Eventually(t, "all places are given back", func() bool {
		free := 0
		for range most {
			slot := g.common.transport.limit.Admit(nil, &exchange{}, false)
			defer slot.Leave()
			if slot != nil {
				free++
			}
		}
		return free == most
	})
}

// A session that has to drain before it has begun ends at once, for example when Shutdown overtakes a
// handshake.
func TestDrainBeforeRun(t *testing.T) {
	g := start(t, "127.0.0.1:1", nil)
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		s := newSession(g.Gateway, here)
		s.Drain()
		synctest.Wait() // it drains in its own goroutine
		ended := false
		go func() {
			s.Run()
			ended = true
		}()
		synctest.Wait()
		if !ended {
			t.Error("the session continues")
		}
		_ = there.Close()
	})
}

// The refusal of a connection above the limit has a correct Content-Length.
func TestRefusal(t *testing.T) {
	g := start(t, "127.0.0.1:1", nil)
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(g.server.Refusal)), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || !strings.HasSuffix(string(g.server.Refusal), "\r\n\r\n"+string(body)) {
		t.Errorf("%q, %v", body, err)
	}
}

// A client that sends one request on a connection makes the gateways open no link, since it would not be used.
func TestOneRequestAConnection(t *testing.T) {
	far, links := claimsToBeFar(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	near := start(t, far, func(c *Config) { c.Link = PerClient }, policy.MessageRule{Auto: true})
	for range 20 {
		_ = post(t, near.url, bytes.NewReader(text)).Body.Close()
	}
	if n := len(links); n > 0 {
		t.Errorf("%d links", n)
	}
	c := client(t)
	for len(links) == 0 {
		send(t, c, http.MethodPost, near.url, text)
	}
}
