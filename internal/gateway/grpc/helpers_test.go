package grpc

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
	"github.com/cinch-layer/cinch/test/rig/rawgrpc"
)

// echo is a server whose methods do what their names say.
func echo(_ any, s grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(s)
	md, _ := metadata.FromIncomingContext(s.Context())
	switch method {
	case "/test.Echo/Unary", "/test.Echo/Both":
		return echoAll(s)
	case "/test.Echo/Metadata":
		_ = s.SetHeader(metadata.Join(md, metadata.Pairs("x-header", "1")))
		s.SetTrailer(metadata.Join(metadata.Pairs("x-trailer", "2", "x-trailer", "1"), prefixed(md, "x-both")))
		return echoAll(s)
	case "/test.Echo/Collect":
		return collect(s)
	case "/test.Echo/Fail":
		st := status.New(codes.Code(9), "percent % and ünicode\n")
		return st.Err()
	case "/test.Echo/FailLate":
		if err := echoAll(s); err != nil {
			return err
		}
		return status.Error(codes.DataLoss, "late")
	case "/test.Echo/Wait":
		<-s.Context().Done()
		return s.Context().Err()
	default:
		return status.Error(codes.Unimplemented, "unknown method "+method)
	}
}

func prefixed(md metadata.MD, name string) metadata.MD {
	return metadata.MD{name: md[name]}
}

func echoAll(s grpc.ServerStream) error {
	for {
		var m []byte
		if err := s.RecvMsg(&m); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := s.SendMsg(&m); err != nil {
			return err
		}
	}
}

func collect(s grpc.ServerStream) error {
	var all []byte
	for {
		var m []byte
		if err := s.RecvMsg(&m); err == io.EOF {
			return s.SendMsg(&all)
		} else if err != nil {
			return err
		}
		all = append(all, m...)
	}
}

// startServer starts a grpc-go server and returns its address.
func startServer(t testing.TB, handler grpc.StreamHandler, options ...grpc.ServerOption) string {
	t.Helper()
	return serveGRPC(t, newServer(handler, options...))
}

func newServer(handler grpc.StreamHandler, options ...grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append([]grpc.ServerOption{
		grpc.UnknownServiceHandler(handler), grpc.ForceServerCodecV2(rawgrpc.Codec{}), grpc.MaxRecvMsgSize(64 << 20),
	}, options...)...)
}

func serveGRPC(t testing.TB, s *grpc.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

// rig is a gateway under test.
type rig struct {
	*Gateway
	addr  string
	stats *gateway.Stats
}

// startGateway starts a gateway in front of a URL. change may alter its configuration.
func startGateway(t testing.TB, upstream string, change func(*Config)) rig {
	t.Helper()
	g := newGateway(t, upstream, change)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = g.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = g.Shutdown(ctx)
	})
	g.addr = l.Addr().String()
	return g
}

// newGateway returns a gateway that does not listen.
func newGateway(t testing.TB, upstream string, change func(*Config)) rig {
	t.Helper()
	up, err := endpoint.ParseUpstream(upstream, "")
	if err != nil {
		t.Fatal(err)
	}
	stats := gateway.NewStats("test", "grpc")
	c := Config{
		Name: "test", Upstream: up, Stats: stats,
		MaxCompress: 32 << 20, MaxOpen: 32 << 20,
		Requests: memory.NewBudget(64 << 20), Replies: memory.NewBudget(64 << 20),
	}
	if change != nil {
		change(&c)
	}
	g := NewGateway(c)
	for _, d := range []*dialer{g.pool.dialer, g.linkDialer} {
		d.probeWait = 10 * time.Second // also enough for slow machines
	}
	return rig{Gateway: g, stats: stats}
}

func connect(t testing.TB, addr string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	options = append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawgrpc.Codec{}), grpc.MaxCallRecvMsgSize(64<<20)),
	}, options...)
	c, err := grpc.NewClient("passthrough:///"+addr, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func unary(ctx context.Context, c *grpc.ClientConn, method string, in []byte, options ...grpc.CallOption) ([]byte, error) {
	var out []byte
	err := c.Invoke(ctx, "/test.Echo/"+method, &in, &out, options...)
	return out, err
}

func stream(ctx context.Context, t testing.TB, c *grpc.ClientConn, method string, options ...grpc.CallOption) grpc.ClientStream {
	t.Helper()
	s, err := c.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/test.Echo/"+method, options...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// payload returns n bytes of text that compresses well.
func payload(n int) []byte {
	var b []byte
	for i := 0; len(b) < n; i++ {
		b = fmt.Appendf(b, `{"series":"http_requests_total","pod":"api-%d","value":%d}`, i%7, i)
	}
	return b[:n]
}

func statusOf(c code) string { return strconv.Itoa(int(c)) }

// partsOf holds the parts of a gateway that change messages, without the gateway.
type partsOf struct {
	t      *testing.T
	budget *memory.Budget
	open   *decompressor
	comp   *compressor
}

func newParts(t *testing.T, budget int64) *partsOf {
	p := &partsOf{t: t, budget: memory.NewBudget(budget)}
	codecs := grpccodec.NewSet(grpccodec.Options{})
	p.open = newDecompressor(1<<20, codecs, nil)
	p.comp = &compressor{cache: NewCache(codecs), kinds: sampled.NewMessages(0), maxLen: 1 << 20}
	return p
}

// patient is a flow that is not cut off.
type patient struct{}

func (patient) Progress() int64         { return 0 }
func (patient) Patience() time.Duration { return time.Hour }
func (patient) Cut(memory.StallReason)  {}

// rewriter returns a rewriter for a call of its own.
func (p *partsOf) rewriter(ctx context.Context, body []byte, plan plan) *rewriter {
	w := newRewriter(ctx, bytes.NewReader(body), plan, false, p.open, p.comp)
	w.grant.Account.Open(p.budget.Share("test").Client(nil), patient{})
	p.t.Cleanup(w.close)
	return w
}

func (p *partsOf) idle() {
	p.t.Helper()
	if n := p.budget.InUse(); n != 0 || len(p.open.ahead) != 0 {
		p.t.Errorf("%d bytes and %d tokens are held", n, len(p.open.ahead))
	}
}

// callFrom returns a call's request with the given headers.
func callFrom(headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/service/Method", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

// inForce returns the state of calls under the given rules.
func inForce(rules *policy.Messages) *shared {
	s := &shared{policy: &atomic.Pointer[policy.Messages]{}}
	s.policy.Store(rules)
	return s
}

// post makes a call and returns its status and the body of its response.
func post(t testing.TB, c *http.Client, method string, body io.Reader, headers ...string) (status, message string, out []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(within(t), http.MethodPost, "http://test/test.Echo/"+method, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("Te", "trailers")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err = io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	h := resp.Trailer
	if resp.Header.Get("Grpc-Status") != "" {
		h = resp.Header
	}
	return h.Get("Grpc-Status"), h.Get("Grpc-Message"), out
}

func frame(compressed bool, m []byte) []byte {
	return append(wire.AppendHeader(nil, compressed, len(m)), m...)
}

func pack(t testing.TB, encoding string, raw []byte) []byte {
	t.Helper()
	out, err := grpccodec.NewSet(grpccodec.Options{}).AppendCompress(nil, raw, encoding)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// startRaw starts an HTTP/2 server without a gRPC library.
func startRaw(t testing.TB, handler http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: handler, Protocols: p}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return l.Addr().String()
}

func exchange(t *testing.T, s grpc.ClientStream) {
	t.Helper()
	in, out := payload(1000), []byte(nil)
	if err := s.SendMsg(&in); err != nil {
		t.Fatal(err)
	}
	if err := s.RecvMsg(&out); err != nil || !bytes.Equal(in, out) {
		t.Fatal(err)
	}
}
