package grpc

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/internal/policy"
)

// What a load balancer answers in the server's place is handed on, whatever the rules.
func TestAnswersThatAreNoGRPC(t *testing.T) {
	const page = "<html>no backend</html>"
	server := startRaw(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(page))
	})
	g := startGateway(t, "grpc://"+server, nil)
	g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "gzip")}))
	_, _, out := post(t, rawClient(t, g.addr), "Any", strings.NewReader(""), "Grpc-Accept-Encoding", "gzip")
	if string(out) != page {
		t.Errorf("the client gets %q", out)
	}
}

// A server that does not speak HTTP/2 in clear: the client is told what may be wrong.
func TestUpstreamIsNoHTTP2(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1)) // with the rest unread, this is a reset
			_ = c.Close()
		}
	}()
	g := startGateway(t, "grpc://"+l.Addr().String(), nil)
	_, err = unary(within(t), connect(t, g.addr), "Unary", payload(10))
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "grpcs://") {
		t.Errorf("the call ends with %v", err)
	}
}

// What is no gRPC reaches the server as if there were no gateway.
func TestPlainHTTPPasses(t *testing.T) {
	server := startRaw(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %s length %d body %q %v trailers %v", r.Method, r.RequestURI, r.ContentLength, body, err, r.Trailer)
	})
	g := startGateway(t, "grpc://"+server, nil)
	g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "gzip")}))
	for _, c := range []struct {
		method, path, body string
		known              bool // the body's length
		trailers           http.Header
	}{
		{method: "GET", path: "/a?b=%20c;d"},
		{method: "GET", path: "//a/b"},
		{method: "GET", path: "//"},
		{method: "GET", path: "/a%2Fb/../c"},
		{method: "PUT", path: "/a", body: "five.", known: true},
		{method: "PUT", path: "//a", body: "of unknown length"},
		{method: "PUT", path: "/a", body: "x", trailers: http.Header{"X-One": {"1"}, "X-Two": {"2", "3"}}},
		{method: "PUT", path: "/a", body: "x", known: true, trailers: http.Header{"X-One": {"1"}}},
	} {
		var got []string
		for _, addr := range []string{server, g.addr} {
			r, err := http.NewRequestWithContext(within(t), c.method, "http://test"+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.body != "" {
				r.Body, r.ContentLength, r.Trailer = io.NopCloser(strings.NewReader(c.body)), -1, c.trailers
			}
			if c.known {
				r.ContentLength = int64(len(c.body))
			}
			resp, err := rawClient(t, addr).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(resp.Body)
			got = append(got, fmt.Sprint(resp.StatusCode, " ", string(text)))
		}
		if got[0] != got[1] {
			t.Errorf("directly   %s\nby gateway %s", got[0], got[1])
		}
	}
}
