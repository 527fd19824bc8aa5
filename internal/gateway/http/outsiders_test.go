package http

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A connection between gateways that ends before its first exchange makes no request fail.
func TestUnusedCarrierEnds(t *testing.T) {
	upstream := startUpstream(t, http.HandlerFunc(echo))
	rules := policy.MessageRule{Name: "requests", Auto: true}
	far := start(t, upstream, func(c *Config) { c.Peers, c.UpstreamReads = true, nil }, rules)
	b := startBalancer(t, strings.TrimPrefix(far.url, "http://"))
	near := start(t, b.Addr().String(), func(c *Config) { c.Link, c.UpstreamReads = Shared, nil }, rules)
	c := client(t)
	idle := func() []*peerConn {
		p := near.common.peerConns
		p.mu.Lock()
		defer p.mu.Unlock()
		return slices.Clone(p.idle)
	}
	for range 2 { // the first reply reveals the gateway, and the second request starts a connection
		send(t, c, http.MethodPost, near.url, text)
	}
	testenv.Eventually(t, "a connection is made", func() bool { return len(idle()) > 0 })
	unused := idle()[0].conn
	_ = gateway.CloseWrite(unused)
	testenv.Eventually(t, "the balancer closes in turn", func() bool { return gateway.PeerClosed(unused) })
	if resp, back := send(t, c, http.MethodPost, near.url, text); resp.StatusCode != 200 || !bytes.Equal(back, text) {
		t.Errorf("%s: %s", resp.Status, back)
	}
}

// reflect answers with the body and the coding that it received, or with the beginning of the body.
func reflect(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	if r.URL.Path == "/short" {
		b = b[:min(len(b), 10)]
	}
	w.Header()["Content-Encoding"] = r.Header["Content-Encoding"]
	w.Header()["Cinch-Content-Encoding"] = []string{"gzip"}
	w.Header().Set("Content-Length", fmt.Sprint(len(b)))
	_, _ = w.Write(b)
}

// Values that clients and upstreams write into the fields of the gateways' protocol arrive unchanged.
func TestWordsOfPairsFromOutside(t *testing.T) {
	for _, coding := range []string{carriedCoding, "opened gzip", "opened nonsense", foreignMark} {
		near, _ := startPair(t, startUpstream(t, http.HandlerFunc(reflect)), nil)
		c := client(t)
		near.untilCarried(c)
		for range 3 {
			for _, path := range []string{"/", "/short"} {
				for _, method := range []string{http.MethodPost, http.MethodHead, http.MethodGet} {
					body := text
					if method != http.MethodPost {
						body = nil
					}
					resp, got := send(t, c, method, near.url+path, body, "Content-Encoding", coding, "Cinch-Content-Encoding", "gzip")
					want := body
					if path == "/short" {
						want = want[:min(len(want), 10)]
					}
					if resp.StatusCode != 200 || resp.Header.Get("Content-Encoding") != coding || !bytes.Equal(got, want) {
						t.Errorf("%q: %s %s: %s %v %d bytes", coding, method, path, resp.Status, resp.Header, len(got))
					}
				}
			}
		}
	}
}

// A client can't act as a near gateway through a near gateway.
func TestClientAsNearGateway(t *testing.T) {
	near, far := startPair(t, startUpstream(t, http.HandlerFunc(echo)), nil)
	conn, err := net.Dial("tcp", strings.TrimPrefix(near.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(3 * time.Minute))
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: cinch-pair/1\r\nCinch-Pair: 1; window=23\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Error("the near gateway passed on an upgrade to the protocol of pairs", resp.Status)
	}
	if s := far.stats.Snapshot(); s.Total.Opened != 0 {
		t.Errorf("%+v", s.Total)
	}
}
