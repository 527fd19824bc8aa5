package grpc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"google.golang.org/grpc"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
)

// field appends a field of wire type 2.
func field(b []byte, number byte, content []byte) []byte {
	return append(binary.AppendUvarint(append(b, number<<3|2), uint64(len(content))), content...)
}

// protobuf returns a message of n series with labels and a sample, as in monitoring.
func protobuf(n int) []byte {
	var all []byte
	for i := range n {
		var series []byte
		for l := range 8 {
			label := field(nil, 1, fmt.Appendf(nil, "label_%d", l))
			series = field(series, 1, field(label, 2, fmt.Appendf(nil, "value-%d", i*(l+1)/20)))
		}
		sample := binary.LittleEndian.AppendUint64([]byte{1<<3 | 1}, uint64(i)<<40)
		series = field(series, 2, binary.AppendUvarint(append(sample, 2<<3), uint64(1_790_000_000_000+i*7)))
		all = field(all, 1, series)
	}
	return all
}

var protoRule = policy.MessageRule{Setting: codec.Setting{Codec: codec.Proto}, MinSize: 64}

// betweenGateways starts two gateways in front of a server and returns them and a client.
func betweenGateways(t *testing.T, near, far policy.MessageRule, options ...grpc.ServerOption) (n, f rig, c *grpc.ClientConn) {
	far.Direction = policy.Reply
	f = startGateway(t, "grpc://"+startServer(t, echo, options...), nil)
	f.SetPolicy(rulesOf(t, far))
	n = startGateway(t, "grpc://"+f.addr, nil)
	n.SetPolicy(rulesOf(t, near))
	return n, f, connect(t, n.addr)
}

func wireBytes(r rig) int {
	w := r.stats.Snapshot().Wire.Client
	return int(w.ReceivedBytes + w.SentBytes)
}

// Two gateways compress protobuf with their own encoding, for a client and a server that do not know it. Less
// data passes between them than with zstd.
func TestProtoBetweenGateways(t *testing.T) {
	const calls = 10
	messages := [][]byte{protobuf(1), protobuf(20), protobuf(2000), payload(50_000), protobuf(500)[:10_000], make([]byte, 70_000)}
	bytesOf := map[string]int{}
	for name, rule := range map[string]policy.MessageRule{"zstd": {Setting: set(t, "zstd"), MinSize: 64}, "cinch-proto": protoRule} {
		seen := &recorder{}
		near, far, c := betweenGateways(t, rule, rule, grpc.StatsHandler(seen))
		for range calls {
			for _, m := range messages {
				mustEcho(t, c, m)
			}
		}
		bytesOf[name] = wireBytes(far)
		if e := near.stats.Snapshot().Errors; len(e) > 0 {
			t.Errorf("%s: near %v, far %v", name, e, far.stats.Snapshot().Errors)
		}
		if name == "cinch-proto" {
			if seen.of("") != calls*len(messages) {
				t.Errorf("the server got %s", seen)
			}
			wantOpened(t, near, "cinch-proto")
			wantOpened(t, far, "cinch-proto")
		}
	}
	if bytesOf["cinch-proto"]*4 > bytesOf["zstd"]*3 {
		t.Errorf("between the gateways: %v", bytesOf)
	}
}

// wantOpened checks that the gateway has decompressed messages of the encoding.
func wantOpened(t *testing.T, r rig, name string) {
	t.Helper()
	for _, c := range r.stats.Snapshot().Opened {
		if c.Codec == name && c.Values > 0 {
			return
		}
	}
	t.Errorf("nothing was opened from %s: %+v", name, r.stats.Snapshot().Opened)
}

// Streams work, too, in both directions, with a client that compresses by itself.
func TestProtoStreams(t *testing.T) {
	_, _, c := betweenGateways(t, protoRule, protoRule)
	s := stream(within(t), t, c, "Both", grpc.UseCompressor("s2"))
	for i := range 30 {
		in, out := protobuf(i*10), []byte(nil)
		if err := s.SendMsg(&in); err != nil {
			t.Fatal(err)
		}
		if err := s.RecvMsg(&out); err != nil || !bytes.Equal(in, out) {
			t.Fatal(i, len(out), err)
		}
	}
}

// A server, or a gateway, that does not know the encoding gets the next rule's.
func TestProtoFallsBack(t *testing.T) {
	seen := &recorder{}
	server := startServer(t, echo, grpc.StatsHandler(seen))
	near := startGateway(t, "grpc://"+server, nil)
	near.SetPolicy(rulesOf(t, protoRule, policy.MessageRule{Setting: set(t, "s2"), MinSize: 64}))
	c := connect(t, near.addr)
	for range 4 {
		mustEcho(t, c, protobuf(100))
	}
	if seen.of("cinch-proto") != 0 || seen.of("s2") < 3 {
		t.Errorf("the server got %s", seen)
	}
}

// A message that would decompress to more than max_open ends its call.
func TestProtoTooLarge(t *testing.T) {
	server := startServer(t, echo)
	far := startGateway(t, "grpc://"+server, func(c *Config) { c.MaxOpen = 100_000 })
	far.SetPolicy(rulesOf(t, protoRule))
	near := startGateway(t, "grpc://"+far.addr, func(c *Config) { c.Requests = memory.NewBudget(64 << 20) })
	near.SetPolicy(rulesOf(t, protoRule))
	c := connect(t, near.addr)
	for range 3 { // the first is sent plain, while the far gateway is not known yet
		mustEcho(t, c, protobuf(100))
	}
	if _, err := unary(within(t), c, "Unary", protobuf(2000)); err == nil {
		t.Error("it was opened")
	}
	mustEcho(t, c, protobuf(100))
}
