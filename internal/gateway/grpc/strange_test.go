package grpc

import (
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
