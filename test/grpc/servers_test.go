package grpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"

	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/test/rig/rawgrpc"
	"github.com/cinch-layer/cinch/test/testenv"
)

// zstd is passed to servers as an option. The registry is global to the process and would add it to all
// servers in it.
type zstd struct{ encoding.Compressor }

func newZstd(t *testing.T) zstd {
	t.Helper()
	c, err := grpccodec.New("zstd", grpccodec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return zstd{c}
}

func (zstd) Type() string { return "zstd" }

func (z zstd) Do(r io.Reader) ([]byte, error) {
	opened, err := z.Decompress(r)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(opened)
}

// implementation is a server of one gRPC implementation. All servers have the methods of test.Echo: Unary
// and Both send messages back, Count returns how many messages those were.
type implementation struct {
	name  string
	start func(t *testing.T) (addr string)
	reads []string // the encodings among those of these tests that it supports
}

var implementations = []implementation{
	{"python 1.62", pythonServer("servers/python-old/requirements.txt"), []string{"gzip"}}, // resets streams
	{"python", pythonServer("python/requirements.txt"), []string{"gzip"}},                  // answers INTERNAL
	{"c++ 1.51", cppServer, []string{"gzip"}},                                              // hands compressed messages to the application
	{"node 1.8", nodeServer("servers/node-old/package.json"), []string{"gzip"}},
	{"node", nodeServer("node/package.json"), []string{"gzip"}},
	{"java 1.35", javaServer("servers/java-old/pom.xml"), []string{"gzip"}},
	{"java", javaServer("java/pom.xml"), []string{"gzip"}},
	{"go 1.38", oldGoServer, []string{"gzip"}},
	{"go", goServer(false), []string{"gzip", "zstd"}},
	{"go, health service", goServer(true), []string{"gzip", "zstd"}},
}

func pythonServer(requirements string) func(t *testing.T) string {
	return func(t *testing.T) string {
		return testenv.Server(t, testenv.Python(t, requirements), absolute(t, "servers/echo.py"), "PORT")
	}
}

func nodeServer(manifest string) func(t *testing.T) string {
	return func(t *testing.T) string {
		path := "NODE_PATH=" + testenv.NodeModules(t, manifest)
		return testenv.Server(t, "env", path, testenv.Program(t, "node"), absolute(t, "servers/echo.cjs"), "PORT")
	}
}

func javaServer(pom string) func(t *testing.T) string {
	return func(t *testing.T) string {
		return testenv.Server(t, testenv.Program(t, "java"), "-cp", testenv.JavaClasses(t, pom, "servers/Echo.java"), "Echo", "PORT")
	}
}

// cppServer compiles the server once, outside of the repository.
func cppServer(t *testing.T) string {
	source := absolute(t, "servers/echo.cc")
	dir := testenv.Cached(t, "grpc-cpp", []string{source}, func(dir string) {
		testenv.Program(t, "g++")
		testenv.Run(t, dir, "bash", "-c", `g++ -std=c++17 "$0" -o echo $(pkg-config --cflags --libs grpc++)`, source)
	})
	return testenv.Server(t, filepath.Join(dir, "echo"), "PORT")
}

// oldGoServer builds a server with a grpc-go that is too old for this module, so it has a module of its
// own.
func oldGoServer(t *testing.T) string {
	source, version := absolute(t, "servers/go/main.go"), absolute(t, "servers/go/version.txt")
	dir := testenv.Cached(t, "grpc-go", []string{source, version}, func(dir string) {
		text, _ := os.ReadFile(source)
		module, _ := os.ReadFile(version)
		for name, content := range map[string][]byte{"main.go": text, "go.mod": []byte("module echo\n")} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, args := range [][]string{{"get", strings.TrimSpace(string(module))}, {"build", "-o", "echo", "."}} {
			testenv.Run(t, dir, "env", append([]string{"GOWORK=off", "GOFLAGS=-mod=mod", "go"}, args...)...)
		}
	})
	return testenv.Server(t, filepath.Join(dir, "echo"), "PORT")
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func goServer(withHealth bool) func(t *testing.T) string {
	return func(t *testing.T) string {
		//lint:ignore SA1019 there is no other way for one server of several
		s := grpc.NewServer(grpc.ForceServerCodecV2(anyCodec{}), grpc.MaxRecvMsgSize(64<<20), grpc.RPCDecompressor(newZstd(t)))
		s.RegisterService(newEchoService(), struct{}{})
		if withHealth {
			grpc_health_v1.RegisterHealthServer(s, health.NewServer())
		}
		return serve(t, s)
	}
}

// anyCodec is for a server with both kinds of services: with messages of bytes, and of protobuf.
type anyCodec struct{ rawgrpc.Codec }

func (c anyCodec) Marshal(v any) (mem.BufferSlice, error) {
	if _, raw := v.(*[]byte); raw {
		return c.Codec.Marshal(v)
	}
	return encoding.GetCodecV2("proto").Marshal(v)
}

func (c anyCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if _, raw := v.(*[]byte); raw {
		return c.Codec.Unmarshal(data, v)
	}
	return encoding.GetCodecV2("proto").Unmarshal(data, v)
}

func newEchoService() *grpc.ServiceDesc {
	var count atomic.Int64
	unary := func(answer func(message []byte) []byte) grpc.MethodHandler {
		return func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			var in []byte
			if err := decode(&in); err != nil {
				return nil, err
			}
			out := answer(in)
			return &out, nil
		}
	}
	echo := func(message []byte) []byte { count.Add(1); return message }
	both := func(_ any, s grpc.ServerStream) error {
		for {
			var m []byte
			if err := s.RecvMsg(&m); err != nil {
				return ignoreEOF(err)
			}
			m = echo(m)
			if err := s.SendMsg(&m); err != nil {
				return err
			}
		}
	}
	return &grpc.ServiceDesc{
		ServiceName: "test.Echo",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			{MethodName: "Unary", Handler: unary(echo)},
			{MethodName: "Count", Handler: unary(func([]byte) []byte { return strconv.AppendInt(nil, count.Load(), 10) })},
		},
		Streams: []grpc.StreamDesc{{StreamName: "Both", Handler: both, ServerStreams: true, ClientStreams: true}},
	}
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// offers are rules, the encoding that they offer, and the number of routes to test.
var offers = []struct {
	encoding, rules string
	routes          int
}{
	{"zstd", "", 3}, // the default rule
	{"gzip", "- {min_size: 64, setting: gzip-1}", 1},
}

// TestServers checks that every server behaves through gateways as it does directly, from the first call
// on. Each message must arrive once, and only encodings that the server supports may be used.
func TestServers(t *testing.T) {
	testenv.NeedsPrograms(t)
	for _, i := range implementations {
		t.Run(i.name, func(t *testing.T) {
			if i.name != "python" && i.name != "go" {
				testenv.Full(t)
			}
			t.Parallel()
			server := i.start(t)
			for _, offer := range offers {
				for _, r := range routes[1 : 1+offer.routes] {
					if r.name == "two gateways" && !testenv.IsFull() {
						continue
					}
					t.Run(offer.encoding+"/"+r.name, func(t *testing.T) {
						r.rules = offer.rules
						checkServer(t, server, r, slices.Contains(i.reads, offer.encoding))
					})
				}
			}
		})
	}
}

func checkServer(t *testing.T, server string, r route, reads bool) {
	chain := r.start(t, server, nil)
	before := countAt(t, server)
	sent := talkToServer(t, (*certificates)(nil).dial(t, chain[0].Addr, rawCalls))
	if got := countAt(t, server) - before; got != sent {
		t.Errorf("%d messages were sent, the server got %d", sent, got)
	}
	last := chain[len(chain)-1]
	name := "test"
	if r.rules == "" && !r.link {
		name = "grpc" // the gateway without a configuration file
	}
	came, went := bytesOf(t, last, name, "received", "client"), bytesOf(t, last, name, "sent", "upstream")
	if r.gateways == 1 && reads != (went*2 < came) {
		t.Errorf("of %.0f bytes %.0f went to the server; it reads the encoding: %v", came, went, reads)
	}
}

var rawCalls = grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawgrpc.Codec{}))

// bytesOf returns the bytes that a gateway has sent or received on one side, TLS included.
func bytesOf(t *testing.T, g *testenv.GatewayServer, name, direction, side string) float64 {
	t.Helper()
	return g.Metric(t, fmt.Sprintf("cinch_%s_bytes_total{gateway=%q,side=%q}", direction, name, side))
}

// talkToServer makes calls of all sizes and returns the number of messages sent.
func talkToServer(t *testing.T, conn *grpc.ClientConn) (sent int) {
	t.Helper()
	text := strings.Repeat("what is said again and again compresses well. ", 5000)
	for _, n := range []int{3000, 3000, 10, 300, 0, 200_000, 3000, 3000, 100, 5000} {
		in, out := []byte(text[:n]), []byte(nil)
		if err := conn.Invoke(within(t), "/test.Echo/Unary", &in, &out); err != nil || string(out) != text[:n] {
			t.Errorf("call %d of %d bytes: %d bytes, %v", sent+1, n, len(out), err)
		}
		sent++
	}
	s, err := conn.NewStream(within(t), bidi, "/test.Echo/Both")
	if err != nil {
		t.Fatal(err)
	}
	for n := range 10 {
		if err := roundTrip(s, text[:n*n*100]); err != nil {
			t.Fatalf("message %d of a stream: %v", n, err)
		}
		sent++
	}
	_ = s.CloseSend()
	if err := s.RecvMsg(new([]byte)); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	return sent
}

// countAt asks a server directly how many messages it has received.
func countAt(t *testing.T, server string) int {
	t.Helper()
	conn := (*certificates)(nil).dial(t, server, rawCalls)
	in, out := []byte(nil), []byte(nil)
	if err := conn.Invoke(within(t), "/test.Echo/Count", &in, &out); err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(string(out))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
