package http

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/wire/peer"
)

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
	for _, coding := range []string{lanesCoding, "opened gzip", "opened nonsense", foreignMark} {
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
	_, _ = conn.Write(append(peer.Hello{Lowest: 1, Highest: 1, Codecs: 1}.Append(nil), "\r\n\r\n"...))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Error("the near gateway took a hello", resp.Status)
	}
	if s := far.stats.Snapshot(); s.Connections.Total > 0 {
		t.Errorf("%+v", s.Connections)
	}
}
