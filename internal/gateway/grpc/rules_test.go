package grpc

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
	"github.com/cinch-layer/cinch/test/testenv"
)

// init registers zstd, s2 and gzip with grpc-go, for all clients and servers of the process. None of them
// reads lz4.
func init() {
	if err := grpccodec.Register("zstd", "s2", "gzip"); err != nil {
		panic(err)
	}
}

// recorder records what a server's peers send.
type recorder struct {
	mu        sync.Mutex
	encodings map[string]int // of clients' calls
	own       map[string]int // of the gateway's calls
	wire      int            // bytes of messages as received
	conns     atomic.Int64
}

// isOwn reports whether a call was made by a gateway itself.
func isOwn(ctx context.Context) bool {
	md, _ := metadata.FromIncomingContext(ctx)
	return slices.Equal(md["user-agent"], []string{"cinch"})
}

func (r *recorder) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (r *recorder) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (r *recorder) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, begins := s.(*stats.ConnBegin); begins {
		r.conns.Add(1)
	}
}

func (r *recorder) HandleRPC(ctx context.Context, s stats.RPCStats) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch s := s.(type) {
	case *stats.InHeader:
		if r.encodings == nil {
			r.encodings, r.own = map[string]int{}, map[string]int{}
		}
		if isOwn(ctx) {
			r.own[s.Compression]++
		} else {
			r.encodings[s.Compression]++
		}
	case *stats.InPayload:
		r.wire += s.CompressedLength
	}
}

func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprint(r.encodings, " own ", r.own, r.wire)
}

func (r *recorder) of(encoding string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.encodings[encoding]
}

// ownCalls counts the gateway's own calls, greetings included.
func (r *recorder) ownCalls() (sum int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.own {
		sum += n
	}
	return sum
}

func rulesOf(t testing.TB, list ...policy.MessageRule) *policy.Messages {
	t.Helper()
	p, err := policy.NewMessages(list)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func set(t testing.TB, text string) codec.Setting {
	t.Helper()
	s, err := codec.ParseSetting(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustEcho(t testing.TB, c *grpc.ClientConn, in []byte, options ...grpc.CallOption) {
	t.Helper()
	out, err := unary(within(t), c, "Unary", in, options...)
	if err != nil || !bytes.Equal(in, out) {
		t.Fatalf("%d bytes came back as %d: %v", len(in), len(out), err)
	}
}

// The gateway itself asks a server that never says what it reads, such as grpc-go's. No client's call is used
// for that.
func TestSilentServerIsAsked(t *testing.T) {
	seen := &recorder{}
	server := startServer(t, echo, grpc.StatsHandler(seen))
	g := startGateway(t, "grpc://"+server, nil)
	g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "zstd-1"), MinSize: 64, Direction: policy.Request}))
	c := connect(t, g.addr)
	for range 5 {
		mustEcho(t, c, payload(100_000))
	}
	if seen.of("zstd") != 4 || seen.of("") != 1 { // the first one shows that the server sends no list
		t.Errorf("the server got %s", seen)
	}
	if g.stats.Snapshot().Total.Sealed != 4 {
		t.Errorf("%+v", g.stats.Snapshot().Total)
	}
}

// A server that does not read the encoding of one rule gets that of the next, and no call is sent twice to
// find that out.
func TestOtherRulesFollow(t *testing.T) {
	seen := &recorder{}
	server := startServer(t, echo, grpc.StatsHandler(seen))
	for _, rest := range [][]policy.MessageRule{nil, {{Setting: set(t, "s2"), MinSize: 64}}} {
		var log testenv.Log
		g := startGateway(t, "grpc://"+server, func(c *Config) { c.Log = log.Logger() })
		g.SetPolicy(rulesOf(t, append([]policy.MessageRule{{Setting: set(t, "lz4"), MinSize: 64}}, rest...)...))
		c := connect(t, g.addr)
		for range 4 {
			mustEcho(t, c, payload(50_000))
		}
		s := stream(within(t), t, c, "Collect")
		in := payload(10_000)
		for range 3 {
			_ = s.SendMsg(&in)
		}
		_ = s.CloseSend()
		var out []byte
		if err := s.RecvMsg(&out); err != nil || len(out) != 30_000 {
			t.Errorf("%d bytes, %v", len(out), err)
		}
		told := log.Count("encoding=lz4 upstream=tcp://" + server)
		if n := g.stats.Snapshot().Errors["encoding_refused"]; int(n) != told || (told == 1) != (rest == nil) {
			t.Errorf("%d refusals; the log has\n%s", n, log.String())
		}
	}
	if seen.of("lz4") != 0 || seen.of("s2") != 4 || seen.of("") != 6 {
		t.Errorf("the server got %s", seen)
	}
}

// Between two gateways messages are compressed, whatever both ends support.
func TestTwoGateways(t *testing.T) {
	seen := &recorder{}
	server := startServer(t, echo, grpc.StatsHandler(seen))
	rule := policy.MessageRule{Setting: set(t, "minlz"), MinSize: 64} // only gateways read it
	far := startGateway(t, "grpc://"+server, nil)
	far.SetPolicy(rulesOf(t, policy.MessageRule{Setting: rule.Setting, MinSize: 64, Direction: policy.Reply}))
	near := startGateway(t, "grpc://"+far.addr, nil)
	near.SetPolicy(rulesOf(t, rule))
	c := connect(t, near.addr)
	const n, calls = 200_000, 10
	for range calls {
		mustEcho(t, c, payload(n))
	}
	w := far.stats.Snapshot().Wire.Client
	if w.ReceivedBytes > n*calls/3 || w.SentBytes > n*calls/3 {
		t.Errorf("between the gateways: %+v", w)
	}
	if seen.of("") != calls {
		t.Errorf("the server got %s", seen)
	}
	for _, native := range []string{"zstd", "gzip"} {
		mustEcho(t, c, payload(n), grpc.UseCompressor(native))
	}
	if errors := near.stats.Snapshot().Errors; len(errors) > 0 {
		t.Errorf("near: %v, far: %v", errors, far.stats.Snapshot().Errors)
	}
	var header, trailer metadata.MD
	_, _ = unary(within(t), c, "Fail", payload(n), grpc.Header(&header), grpc.Trailer(&trailer))
	if list := append(header["grpc-accept-encoding"], trailer["grpc-accept-encoding"]...); len(list) > 0 {
		t.Errorf("what gateways tell each other reached the client: %v", list)
	}
	s := stream(within(t), t, c, "Both", grpc.UseCompressor("s2"))
	for i := range 20 {
		in, out := payload(i*3000), []byte(nil)
		if err := s.SendMsg(&in); err != nil {
			t.Fatal(err)
		}
		if err := s.RecvMsg(&out); err != nil || !bytes.Equal(in, out) {
			t.Fatal(len(out), err)
		}
	}
}

// A raw rule sends plain messages, and a disabled one changes nothing.
func TestRawAndOff(t *testing.T) {
	seen := &recorder{}
	server := startServer(t, echo, grpc.StatsHandler(seen))
	g := startGateway(t, "grpc://"+server, nil)
	c := connect(t, g.addr)
	p := rulesOf(t,
		policy.MessageRule{Space: "test.*", Commands: []string{"Unary"}, Setting: set(t, "raw")},
		policy.MessageRule{Setting: set(t, "s2"), MinSize: 64})
	g.SetPolicy(p)
	mustEcho(t, c, payload(5000), grpc.UseCompressor("zstd"))
	if seen.of("") != 1 {
		t.Errorf("the server got %s", seen)
	}
	off := *p
	off.Off = true
	g.SetPolicy(&off)
	mustEcho(t, c, payload(5000), grpc.UseCompressor("zstd"))
	if seen.of("zstd") != 1 {
		t.Errorf("the server got %s", seen)
	}
}

// Messages that do not become smaller are sent plain, in a stream that has an encoding.
func TestNoGain(t *testing.T) {
	server := startServer(t, echo)
	g := startGateway(t, "grpc://"+server, func(c *Config) { c.UpstreamReads = []string{"zstd"} })
	g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "zstd-1"), MinSize: 10}))
	c := connect(t, g.addr)
	noise := make([]byte, 10_000)
	_, _ = rand.Read(noise)
	mustEcho(t, c, noise)
	if n := g.stats.Snapshot().Rules[0].LeftBy; len(n) != 1 || n[0].Reason != "no_gain" {
		t.Errorf("%+v", n)
	}
}

// Copies of a message within seconds are compressed once.
func TestCopiesAreCompressedOnce(t *testing.T) {
	codecs := grpccodec.NewSet(grpccodec.Options{})
	cache := NewCache(codecs)
	server := startServer(t, echo)
	var all sync.WaitGroup
	for range 3 {
		g := startGateway(t, "grpc://"+server, func(c *Config) {
			c.Codecs, c.Cache, c.UpstreamReads = codecs, cache, []string{"zstd"}
		})
		g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "zstd-1"), MinSize: 64, Direction: policy.Request}))
		c := connect(t, g.addr)
		all.Go(func() {
			for i := range 4 {
				in := payload(20_000 + i)
				out, err := unary(within(t), c, "Unary", in)
				if err != nil || !bytes.Equal(in, out) {
					t.Errorf("%v", err)
				}
			}
		})
	}
	all.Wait()
	if got := cache.totals; got.misses != 4 || got.hits+got.joined != 8 {
		t.Errorf("%+v", got)
	}
}

// A server behind two gateways gets each message as its client sent it, unless a rule of the far gateway says
// otherwise.
func TestMessagesAreRestored(t *testing.T) {
	type seen struct {
		encoding, token string
		flags           []byte
	}
	got := make(chan seen, 1)
	server := startRaw(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", "0")
		if r.URL.Path == healthPath {
			return
		}
		s := seen{encoding: r.Header.Get("Grpc-Encoding"), token: r.Header.Get(originalHeader)}
		for len(body) >= wire.HeaderLen {
			h, _ := wire.ParseHeader(body)
			s.flags = append(s.flags, body[0])
			body = body[wire.HeaderLen+int(h.Len):]
		}
		got <- s
	})
	far := startGateway(t, "grpc://"+server, nil)
	middle := startGateway(t, "grpc://"+far.addr, nil)
	middle.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "s2"), MinSize: 64}))
	near := startGateway(t, "grpc://"+middle.addr, nil)
	near.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "minlz"), MinSize: 64}))
	var body []byte
	for _, m := range [][]byte{payload(5000), payload(10)} {
		body = append(body, frame(true, pack(t, "gzip", m))...)
		body = append(body, frame(false, m)...)
	}
	c := rawClient(t, near.addr)
	for i := range 3 {
		status, message, _ := post(t, c, "Any", bytes.NewReader(body), "Grpc-Encoding", "gzip")
		s := <-got
		if status != "0" || s.token != "" {
			t.Errorf("%s %s, %+v", status, message, s)
		}
		if i > 0 && (s.encoding != "gzip" || !bytes.Equal(s.flags, []byte{1, 0, 1, 0})) { // the first call learns it
			t.Errorf("the server got %+v", s)
		}
	}
}
