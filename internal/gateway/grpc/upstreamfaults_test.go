package grpc

//lint:file-ignore SA1019 the same library as the gateway's.

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A load balancer's answer in place of the server's is forwarded, whatever the rules.
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

// If a server does not speak HTTP/2 in clear, the client gets an error that suggests the cause.
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
			_, _ = c.Read(make([]byte, 1)) // with unread data, this causes a reset
			_ = c.Close()
		}
	}()
	g := startGateway(t, "grpc://"+l.Addr().String(), nil)
	_, err = unary(within(t), connect(t, g.addr), "Unary", payload(10))
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "grpcs://") {
		t.Errorf("the call ends with %v", err)
	}
}

// startDying starts a server that speaks HTTP/2 and dies during its first call, or one that answers on its
// first connection only.
func startDying(t *testing.T, answers bool) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for i := 0; ; i++ {
			c, err := l.Accept()
			switch {
			case err != nil:
				return
			case answers && i == 0:
				go (&xhttp2.Server{}).ServeConn(c, &xhttp2.ServeConnOpts{Handler: http.HandlerFunc(answerOnce)})
			case answers:
				_ = c.Close()
			default:
				go dieOfCall(c)
			}
		}
	}()
	return l.Addr().String()
}

func answerOnce(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Grpc-Status", "0")
	w.Header().Set("Connection", "close") // GOAWAY after the response
}

// dieOfCall closes a connection when the client has acknowledged the settings and made a call.
func dieOfCall(c net.Conn) {
	defer c.Close()
	_, _ = io.ReadFull(c, make([]byte, len(xhttp2.ClientPreface)))
	f := xhttp2.NewFramer(c, c)
	_ = f.WriteSettings()
	for known, called := false, false; !known || !called; {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *xhttp2.SettingsFrame:
			known = known || frame.IsAck()
		case *xhttp2.HeadersFrame:
			called = true
		}
	}
}

// The error of a server that has spoken HTTP/2 in clear and dies does not suggest TLS. Nor does that of a
// balancer in its place.
func TestDeadServerNeedsNoTLS(t *testing.T) {
	for _, answers := range []bool{false, true} {
		g := startGateway(t, "grpc://"+startDying(t, answers), nil)
		c := rawClient(t, g.addr)
		if answers {
			if got, text, _ := post(t, c, "Any", strings.NewReader("")); got != "0" {
				t.Fatal(got, text)
			}
		}
		for range 3 {
			got, text, _ := post(t, c, "Any", strings.NewReader(""))
			if got != statusOf(codeUnavailable) || strings.Contains(text, "grpcs") {
				t.Errorf("%v: status %s, %s", answers, got, text)
			}
		}
	}
}

// The log and the counters report that an upstream can't be reached.
func TestUpstreamIsAway(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	var log testenv.Log
	g := startGateway(t, "grpc://"+l.Addr().String(), func(c *Config) { c.Log = log.Logger() })
	for range 3 {
		if got, text, _ := post(t, rawClient(t, g.addr), "Any", strings.NewReader("")); got != statusOf(codeUnavailable) || strings.Contains(text, "grpcs") {
			t.Errorf("status %s, %s", got, text)
		}
	}
	if n := log.Count("msg=\"upstream unreachable"); n != 1 {
		t.Errorf("said %d times:\n%s", n, log.String())
	}
	if n := g.stats.Snapshot().Errors["upstream_unreachable"]; n != 3 {
		t.Errorf("counted %d times", n)
	}
}

// Messages that a client has compressed and the server does not read are decompressed, and the log does not
// blame a rule if there is none.
func TestRefusalWithoutRules(t *testing.T) {
	var ran atomic.Int64
	server := startRaw(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h := w.Header()
		h.Set("Content-Type", "application/grpc")
		if r.Header.Get("Grpc-Encoding") != "" {
			h.Set("Grpc-Status", "13")
			h.Set("Grpc-Message", "Error%20parsing 'grpc-encoding' metadata")
			return
		}
		ran.Add(1)
		_, _ = w.Write(body)
		h.Set(http.TrailerPrefix+"Grpc-Status", "0")
	})
	var log testenv.Log
	g := startGateway(t, "grpc://"+server, func(c *Config) { c.Log = log.Logger() })
	c := connect(t, g.addr)
	for range 3 {
		mustEcho(t, c, payload(3000), grpc.UseCompressor("zstd"))
	}
	if ran.Load() != 3 || log.Count("a rule") != 0 || log.Count("encoding of clients") != 1 {
		t.Errorf("%d calls ran, the log has\n%s", ran.Load(), log.String())
	}
}

// Requests other than gRPC reach the server as if there were no gateway.
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

// Facts that several connections find out are logged once.
func TestNotices(t *testing.T) {
	var b strings.Builder
	n := &onceLogger{log: slog.New(slog.NewTextHandler(&b, nil)), upstream: "there"}
	if !n.unreadEncoding("zstd") || n.unreadEncoding("zstd") || !n.unreadEncoding("s2") {
		t.Error("not once for each encoding")
	}
	n.probeUnavailable()
	n.probeUnavailable()
	n.refusedEncoding("zstd")
	if lines := strings.Count(b.String(), "\n"); lines != 4 {
		t.Errorf("%d lines:\n%s", lines, &b)
	}
}

// A connection that was given up explains why its calls failed, and counts what arrived until then.
func TestGivenUpHop(t *testing.T) {
	h := &upstreamConn{}
	if err := h.explain(io.EOF); err != io.EOF {
		t.Error(err)
	}
	h.givenUp.Store(true)
	b := countedBody{strings.NewReader("x"), h}
	if n, err := b.Read(make([]byte, 10)); n != 1 || err != nil || h.received.Load() != 1 {
		t.Error(n, err)
	}
	if err := h.explain(io.ErrUnexpectedEOF); err != errSilent {
		t.Error(err)
	}
}

// breaking starts a server that answers each call with headers and the beginning of a message, and then
// breaks the connection.
func breaking(t *testing.T, encoding string, message []byte, part int) string {
	addr, _ := refusing(t, func(fr *xhttp2.Framer, id uint32, _ int64) bool {
		var b bytes.Buffer
		e := hpack.NewEncoder(&b)
		fields := [][2]string{{":status", "200"}, {"content-type", "application/grpc"}}
		if encoding != "" {
			fields = append(fields, [2]string{"grpc-encoding", encoding})
		}
		for _, h := range fields {
			_ = e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
		}
		_ = fr.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: b.Bytes(), EndHeaders: true})
		m := append(wire.AppendHeader(nil, encoding != "", len(message)), message...)
		_ = fr.WriteData(id, false, m[:part])
		return false
	})
	return addr
}

// A connection that breaks within a message is UNAVAILABLE, as without a gateway, whatever the gateway does
// with the message.
func TestUpstreamBreaksWithinAMessage(t *testing.T) {
	plain := payload(10_000)
	for _, encoding := range []string{"", "zstd"} {
		message := plain
		if encoding != "" {
			message = pack(t, encoding, plain)
		}
		for _, part := range []int{0, 3, 5, 100} {
			server := breaking(t, encoding, message, part)
			for _, rule := range []string{"", "raw", "s2"} {
				g := startGateway(t, "grpc://"+server, nil)
				if rule != "" {
					g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, rule), Direction: policy.Reply}))
				}
				c := connect(t, g.addr, grpc.WithDisableRetry())
				if _, err := unary(within(t), c, "Unary", payload(10)); status.Code(err) != codes.Unavailable {
					t.Errorf("%q, %d bytes, rule %q: %v", encoding, part, rule, err)
				}
			}
		}
		c := connect(t, breaking(t, encoding, message, 100), grpc.WithDisableRetry())
		if _, err := unary(within(t), c, "Unary", payload(10)); status.Code(err) != codes.Unavailable {
			t.Errorf("direct: %v", err)
		}
	}
}
