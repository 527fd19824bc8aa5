package plan

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/golang/snappy"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/cinch-layer/cinch/internal/estimate/plan"
	"github.com/cinch-layer/cinch/test/rig/rawgrpc"
	"github.com/cinch-layer/cinch/test/rig/remotewrite"
	"github.com/cinch-layer/cinch/test/testenv"
)

// scrapes returns consecutive requests with the same series.
func scrapes(n int) (all [][]byte) {
	r := rand.New(rand.NewPCG(5, 5))
	list := make([]remotewrite.Series, 1500)
	for i := range list {
		list[i].Value = float64(r.IntN(1e6))
		for _, l := range [][2]string{{"__name__", fmt.Sprintf("http_requests_%d_total", i%30)}, {"code", fmt.Sprint(200 + i%7)}, {"pod", fmt.Sprintf("api-%d-%04x", i/50, r.IntN(1<<16))}, {"region", "eu-central-1"}} {
			list[i].Labels = append(list[i].Labels, remotewrite.Label{Name: l[0], Value: l[1]})
		}
	}
	for at := range n {
		for i := range list {
			list[i].Timestamp = 1_790_000_000_000 + int64(at)*15_000
			list[i].Value += float64(r.IntN(50))
		}
		all = append(all, remotewrite.AppendRequest(nil, list))
	}
	return all
}

// sender sends telemetry over one protocol.
type sender struct {
	protocol, flag, pairs string // pairs: rules between two gateways
	upstream              func(t *testing.T) string
	send                  func(t *testing.T, addr string) func(message []byte)
}

var senders = map[string]sender{
	"remote write": {"http", "--remote-write", "- {path: /api/v1/write, setting: cinch-proto}", httpSink, remoteWriter},
	"OTLP by HTTP": {"http", "--otlp", "- {path: /v1/metrics, setting: cinch-proto}", httpSink, otlpHTTP},
	"OTLP by gRPC": {"grpc", "--otlp", "- {direction: request, min_size: 64, setting: cinch-proto}", grpcSink, otlpGRPC},
}

func httpSink(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func post(t *testing.T, url, coding string, body []byte) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	must(t, nil, err)
	r.Header.Set("Content-Type", "application/x-protobuf")
	if coding != "" {
		r.Header.Set("Content-Encoding", coding)
	}
	resp, err := http.DefaultClient.Do(r)
	must(t, nil, err)
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
}

func remoteWriter(t *testing.T, addr string) func([]byte) {
	return func(m []byte) { post(t, "http://"+addr+"/api/v1/write", "snappy", snappy.Encode(nil, m)) }
}

func otlpHTTP(t *testing.T, addr string) func([]byte) {
	return func(m []byte) { post(t, "http://"+addr+"/v1/metrics", "", m) }
}

const exportMetrics = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"

func grpcSink(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, nil, err)
	s := grpc.NewServer(grpc.ForceServerCodecV2(rawgrpc.Codec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		var in, out []byte
		if err := stream.RecvMsg(&in); err != nil {
			return err
		}
		return stream.SendMsg(&out)
	}))
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

func otlpGRPC(t *testing.T, addr string) func([]byte) {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawgrpc.Codec{})))
	must(t, nil, err)
	t.Cleanup(func() { _ = conn.Close() })
	return func(m []byte) {
		var out []byte
		must(t, nil, conn.Invoke(t.Context(), exportMetrics, &m, &out))
	}
}

// carries returns the bytes that a message takes between two gateways once they use history. It is the
// median, since on a busy machine a connection may be reopened, and its first messages have no history.
func (s *sender) carries(t *testing.T, messages [][]byte) float64 {
	t.Helper()
	scheme := s.protocol + "://"
	far := testenv.Gateway(t, testenv.GatewayConfig{Protocol: s.protocol, Upstream: scheme + s.upstream(t), Settings: "peers: true"})
	m := startMeter(t, far.Addr)
	near := testenv.Gateway(t, testenv.GatewayConfig{Protocol: s.protocol, Upstream: scheme + m.addr, Rules: s.pairs, Settings: "link: {history: client}"})
	send := s.send(t, near.Addr)
	warm := len(messages) / 2
	for _, b := range messages[:warm] {
		send(b)
	}
	var went []int64
	for _, b := range messages[warm:] {
		before := m.bytes.Load()
		send(b)
		went = append(went, m.bytes.Load()-before)
	}
	slices.Sort(went)
	return float64(went[len(went)/2])
}

// The plan's prediction for two gateways equals the bytes that they transfer within a tenth, apart from
// headers, which a plan ignores.
func TestPlanPredictsWhatAPairCarries(t *testing.T) {
	t.Parallel()
	const headers = 1200 // limit for the headers of a request and its reply, in bytes
	messages := scrapes(80)
	for name, s := range senders {
		t.Run(name, func(t *testing.T) {
			if name == "OTLP by HTTP" {
				testenv.Full(t)
			}
			watched := testenv.Gateway(t, testenv.GatewayConfig{Protocol: s.protocol, Upstream: s.protocol + "://" + s.upstream(t), Settings: "sample: true"})
			send := s.send(t, watched.Addr)
			for _, m := range messages {
				send(m)
			}
			page := "http://" + watched.Admin
			r := report(t, s.flag, page, "--cloud", "gcp")
			ways := map[string]plan.Crossing{}
			for _, c := range r.Crossings {
				ways[c.Name] = c
			}
			now, pair := ways["unchanged"], ways["two gateways, with history"]
			if pair.Saves < 0.8 || pair.Saves <= ways["zstd, by message"].Saves || now.Dollars <= pair.Dollars || !r.ZonesAssumed || r.Layout.Zones != 3 {
				t.Fatalf("%+v, %+v", r.Crossings, r.Layout)
			}
			came := float64(r.Now) / float64(r.LookedAt.Values)
			if s.protocol == "grpc" { // replies are empty
				came = float64(r.Now) / float64(len(messages))
			}
			said, carried := came*(1-pair.Saves), s.carries(t, messages)
			t.Logf("%.0f bytes a message come, %.0f is said of a pair, %.0f go over it", came, said, carried)
			if math.Abs(carried-said) > 0.1*said+headers {
				t.Errorf("%.0f bytes a message go over a pair, said were %.0f", carried, said)
			}
			if e := cinch(t, "plan", s.flag, page, "--pair"); e.code != 0 || !strings.Contains(e.out, "PreferSameZone") || !strings.Contains(e.out, "two gateways, with history") {
				t.Errorf("%d: %s%s", e.code, e.out, e.err)
			} else {
				t.Log("\n" + e.out)
			}
			other := map[string]string{"--otlp": "--remote-write", "--remote-write": "--otlp"}[s.flag]
			if e := cinch(t, "plan", other, page); e.code != 1 || !strings.Contains(e.err, "lists the gateway's traffic") {
				t.Errorf("%s: %d: %s%s", other, e.code, e.out, e.err)
			}
		})
	}
}
