package grpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/rig/rawgrpc"
	"github.com/cinch-layer/cinch/test/testenv"
)

// answers returns a server's answer to a call of the gateway: "LIST|CODE|MESSAGE", or "" for a message with
// status 0.
type answers func(path, encoding string) string

func lookingFirst(encodings ...string) answers {
	return func(path, encoding string) string {
		switch {
		case encoding != "" && !slices.Contains(encodings, encoding):
			return fmt.Sprintf(`|12|grpc: Decompressor is not installed for grpc-encoding "%s"`, encoding)
		case path == healthPath:
			return ""
		}
		return "|13|unexpected EOF"
	}
}

// bareGo answers like grpc-go's server without a health service: it checks the method first.
func bareGo(encodings ...string) answers {
	return func(path, encoding string) string {
		if path == healthPath {
			return "|12|unknown service grpc.health.v1.Health"
		}
		return lookingFirst(encodings...)(path, encoding)
	}
}

func always(answer string) answers { return func(string, string) string { return answer } }

type question struct{ path, encoding string }

// inquire runs an inquiry about zstd and lz4, after a client's call was answered with a message and without a
// list. It returns what is known then, and the questions.
func inquire(t *testing.T, server answers, single string) (k *serverCapabilities, asked []question, told bool) {
	t.Helper()
	k = &serverCapabilities{linkSupport: &link.Support{}}
	var n atomic.Int64
	q := &encodingProbe{capabilities: k, codecs: grpccodec.NewSet(grpccodec.Options{}), alive: t.Context(), probeWait: time.Minute, onUnavailable: func() { told = true }}
	q.ask = func(_ context.Context, c gatewayCall) (*gatewayReply, error) {
		asked = append(asked, question{c.path, c.encoding})
		if n.Add(1) > 10 {
			return nil, errors.New("it never ends")
		}
		list, status, ok := strings.Cut(server(c.path, c.encoding), "|")
		code, message, _ := strings.Cut(status, "|")
		a := &gatewayReply{header: http.Header{}, trailer: http.Header{"Grpc-Status": {"0"}}}
		if ok {
			a.header.Set("Grpc-Status", code)
			a.header.Set("Grpc-Message", message)
		}
		if list != "" {
			a.header.Set("Grpc-Accept-Encoding", list)
		}
		return a, nil
	}
	q.addEncodings([]string{"zstd", "lz4"}, "test")
	q.await(t.Context())
	if k.listed == nil {
		k.recordHeaders(http.Header{})
	}
	for range maxWithoutMethod {
		q.onResponse(single)
	}
	q.await(t.Context())
	q.mu.Lock()
	defer q.mu.Unlock()
	return k, asked, told
}

func TestInquiry(t *testing.T) {
	const single = "/test.Echo/Unary"
	cMethod := "|12|Method not found!"
	for name, test := range map[string]struct {
		server    answers
		single    string
		zstd, lz4 support
		asked     int // calls
		told      bool
	}{
		"says it":                      {always("gzip,zstd|0|"), "", yes, no, 1, false},
		"grpc-go, health":              {lookingFirst("zstd"), "", yes, no, 4, false},
		"grpc-go, no health":           {bareGo("zstd"), single, yes, no, 4, false},
		"grpc-go, streams only":        {bareGo("zstd"), "", unknown, unknown, 1, true},
		"reads nothing":                {lookingFirst(), "", no, no, 4, false},
		"looks at nothing, health":     {always(""), "", unknown, unknown, 2, true},
		"looks at nothing, no health":  {always(cMethod), single, unknown, unknown, 2, true},
		"is away":                      {always("|14|no healthy upstream"), single, unknown, unknown, 2, false},
		"lists when it refuses":        {tonic, single, yes, no, 2, false},
		"a balancer refuses all calls": {always("|16|no token"), single, unknown, unknown, 2, true},
	} {
		k, asked, told := inquire(t, test.server, test.single)
		if zstd, lz4 := k.reads("zstd"), k.reads("lz4"); zstd != test.zstd || lz4 != test.lz4 || len(asked) != test.asked || told != test.told {
			t.Errorf("%s: zstd %v, lz4 %v, told %v, asked %v", name, zstd, lz4, told, asked)
		}
		if asked[0] != (question{healthPath, ""}) {
			t.Errorf("%s: first is asked %v", name, asked[0])
		}
	}
}

// tonic answers like Rust's server: it sends the list only with a refusal.
func tonic(_, encoding string) string {
	if encoding == controlName {
		return "gzip,zstd|12|Content is compressed with `cinch-probe` which isn't supported"
	}
	return ""
}

// A server's own list takes precedence over answers. If lists differ, as behind a balancer, only encodings in
// all of them count.
func TestListsDiffer(t *testing.T) {
	k := &serverCapabilities{linkSupport: &link.Support{}}
	k.recordProbe("zstd", true)
	k.recordList([]string{"identity, gzip, s2"})
	k.recordList([]string{"identity, gzip"})
	k.recordList([]string{"identity, gzip, s2"})
	for encoding, want := range map[string]support{"gzip": yes, "s2": no, "zstd": no} {
		if got := k.reads(encoding); got != want {
			t.Errorf("%s: %v", encoding, got)
		}
	}
	k.recordTrailers(http.Header{"Grpc-Accept-Encoding": {"identity"}})
	if k.reads("gzip") != no {
		t.Error("trailers count for nothing")
	}
}

// startBareGo starts a grpc-go server with a service of its own and nothing else.
func startBareGo(t *testing.T, seen *recorder, ran *atomic.Int64) string {
	unary := func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var in []byte
		if err := decode(&in); err != nil {
			return nil, err
		}
		ran.Add(1)
		return &in, nil
	}
	both := func(_ any, s grpc.ServerStream) error {
		ran.Add(1)
		return echoAll(s)
	}
	s := grpc.NewServer(grpc.ForceServerCodecV2(rawgrpc.Codec{}), grpc.StatsHandler(seen))
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Echo", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Unary", Handler: unary}},
		Streams: []grpc.StreamDesc{{StreamName: "Both", Handler: both, ServerStreams: true, ClientStreams: true}},
	}, struct{}{})
	return serveGRPC(t, s)
}

// A grpc-go server with only its own service is asked by calls that it can't execute. Methods whose calls
// have several messages, or none, are never used for that.
func TestBareGoServer(t *testing.T) {
	for encoding, reads := range map[string]bool{"zstd": true, "lz4": false} {
		seen, ran := &recorder{}, &atomic.Int64{}
		g := startGateway(t, "grpc://"+startBareGo(t, seen, ran), nil)
		g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, encoding), MinSize: 64, Direction: policy.Request}))
		c := connect(t, g.addr)
		for range 3 {
			s := stream(within(t), t, c, "Both")
			exchange(t, s)
			exchange(t, s)
			_ = s.CloseSend()
			_ = s.RecvMsg(new([]byte))
		}
		if n := seen.ownCalls(); n != 1 { // the greeting
			t.Errorf("%d own calls before there is a method for them: %s", n, seen)
		}
		const calls = 5
		for range calls {
			mustEcho(t, c, payload(3000))
		}
		want := 0
		if reads {
			want = calls - 1
		}
		if seen.of(encoding) != want || ran.Load() != 3+calls || seen.ownCalls() != 3 {
			t.Errorf("%s: %d calls ran, the server got %s", encoding, ran.Load(), seen)
		}
	}
}

// A server that never answers the gateway's calls delays a client's call once, and not again every minute.
func TestSilentQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan struct{}, 10)
		q := &encodingProbe{capabilities: &serverCapabilities{linkSupport: &link.Support{}}, alive: t.Context(), probeWait: time.Millisecond, ask: func(ctx context.Context, _ gatewayCall) (*gatewayReply, error) {
			asked <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		q.addEncodings([]string{"zstd"}, "test")
		<-asked
		q.await(t.Context()) // does not wait for the answer
		testenv.Eventually(t, "the call's end", func() bool {
			q.mu.Lock()
			defer q.mu.Unlock()
			return q.running == nil
		})
		q.mu.Lock()
		if time.Until(q.notBefore) <= 0 {
			t.Error("it is asked again at once")
		}
		q.notBefore = time.Now().Add(-time.Second)
		q.mu.Unlock()
		q.onResponse("")
		<-asked
		q.probeWait = time.Hour
		q.await(t.Context())
	})
}
