package grpc

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/cinch-layer/cinch/test/testenv"
)

// scrape returns a message such as monitoring systems send: n series with the same labels every time and
// new values.
func scrape(rng *rand.Rand, n int) string {
	field := func(b []byte, number byte, content []byte) []byte {
		return append(binary.AppendUvarint(append(b, number<<3|2), uint64(len(content))), content...)
	}
	var all []byte
	for i := range n {
		var series []byte
		for l := range 8 {
			label := field(nil, 1, fmt.Appendf(nil, "label_%d", l))
			series = field(series, 1, field(label, 2, fmt.Appendf(nil, "value-%d-%d", i*(l+1)/20, i*7919%1000)))
		}
		sample := binary.LittleEndian.AppendUint64([]byte{1<<3 | 1}, uint64(rng.IntN(100))<<40)
		series = field(series, 2, binary.AppendUvarint(append(sample, 2<<3), uint64(1_790_000_000_000+i*7)))
		all = field(all, 1, series)
	}
	return string(all)
}

const columnsRule = "- {min_size: 64, setting: %s}"

// gatewayPair starts two gateways in front of a server. between, if not nil, gets the far one's address and
// returns the address that the near one connects to.
func gatewayPair(t *testing.T, server, setting string, between func(addr string) string) (near, far *testenv.GatewayServer) {
	rules := fmt.Sprintf(columnsRule, setting)
	far = testenv.Gateway(t, testenv.GatewayConfig{Protocol: "grpc", Upstream: server, Rules: rules, Race: testenv.RaceDetector})
	addr := far.Addr
	if between != nil {
		addr = between(addr)
	}
	near = testenv.Gateway(t, testenv.GatewayConfig{Protocol: "grpc", Upstream: addr, Rules: rules, Race: testenv.RaceDetector})
	return near, far
}

// sendScrapes sends the same sequence of messages at every call, each in an RPC of its own.
func sendScrapes(t *testing.T, conn *grpc.ClientConn) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		if err := echoOnce(within(t), conn, scrape(rng, 100)); err != nil {
			t.Fatal(err)
		}
	}
}

func storedBytes(t *testing.T, all ...*testenv.GatewayServer) (sum float64) {
	for _, g := range all {
		sum += g.Metric(t, "cinch_value_stored_bytes_total")
	}
	return sum
}

// TestColumnsThroughTunnel checks that two gRPC gateways with a tunnel between them send columns that only
// the tunnel compresses. Client and server need no change, and less crosses the tunnel than with
// cinch-proto per message.
func TestColumnsThroughTunnel(t *testing.T) {
	e := startEcho(t)
	near, far := gatewayPair(t, e.addr, "cinch-proto", nil)
	sendScrapes(t, (*certificates)(nil).dial(t, near.Addr))
	alone := storedBytes(t, near, far)

	var entry, exit *testenv.GatewayServer
	near, far = gatewayPair(t, e.addr, "cinch-proto-raw", func(addr string) string {
		exit = testenv.Gateway(t, testenv.GatewayConfig{Protocol: "tunnel-exit", Upstream: "tcp://" + addr, Settings: "setting: zstd-3", Race: testenv.RaceDetector})
		entry = testenv.Gateway(t, testenv.GatewayConfig{Protocol: "tunnel", Upstream: "tcp://" + exit.Addr, Settings: "setting: zstd-3", Race: testenv.RaceDetector})
		return entry.Addr
	})
	sendScrapes(t, (*certificates)(nil).dial(t, near.Addr))
	together := storedBytes(t, entry, exit)
	t.Logf("columns alone %.0f bytes, through the tunnel %.0f; by message %.0f", storedBytes(t, near, far), together, alone)
	if together*2 > alone {
		t.Errorf("%.0f bytes through the tunnel, %.0f by message", together, alone)
	}
	if near.Metric(t, "cinch_values_opened_total") == 0 || far.Metric(t, "cinch_values_opened_total") == 0 {
		t.Error("no columns went between the gateways")
	}
}

// TestLink checks that with one option two gateways make their connection a link, and that repeated columns
// are as small as through a tunnel. The near gateway reports what a shared history means.
func TestLink(t *testing.T) {
	const clients = 2
	for history, streams := range map[string]float64{"client": clients, "shared": 1} {
		t.Run(history, func(t *testing.T) {
			e := startEcho(t)
			far := testenv.Gateway(t, testenv.GatewayConfig{
				Protocol: "grpc", Upstream: e.addr, Rules: "- {direction: reply, min_size: 64, setting: cinch-proto}", Settings: linkFar, Race: testenv.RaceDetector,
			})
			near := testenv.Gateway(t, testenv.GatewayConfig{
				Protocol: "grpc", Upstream: far.Addr, Rules: linkRules, Settings: "link: {window: 128KiB, history: " + history + "}", Race: testenv.RaceDetector,
			})
			for range clients {
				sendScrapes(t, (*certificates)(nil).dial(t, near.Addr))
			}
			if warned := strings.Contains(near.Output(), "CRIME"); warned != (history == "shared") {
				t.Errorf("warned of a shared history: %v", warned)
			}
			if n := near.Metric(t, "cinch_link_streams_total"); n != streams {
				t.Errorf("%.0f histories of what the near gateway sends", n)
			}
			side := func(name, side string) float64 {
				return near.Metric(t, fmt.Sprintf("cinch_%s_bytes_total{gateway=\"test\",side=%q}", name, side))
			}
			carried, raw := side("sent", "upstream")+side("received", "upstream"), side("sent", "client")+side("received", "client")
			t.Logf("%.0f bytes to and from clients, %.0f on the link", raw, carried)
			if carried*20 > raw {
				t.Errorf("%.0f bytes to and from clients, %.0f on the link", raw, carried)
			}
			if n := near.Metric(t, "cinch_errors_total") + far.Metric(t, "cinch_errors_total"); n != 0 {
				t.Errorf("%.0f errors", n)
			}
		})
	}
}
