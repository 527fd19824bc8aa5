package grpc

import (
	"testing"

	"google.golang.org/grpc"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/policy"
)

// Messages are counted and sampled as received, long and compressed ones too, whatever a rule does with them.
// The estimated saving of a pair exceeds that of a message by itself.
func TestMessagesAreMeasuredAsTheyCame(t *testing.T) {
	server := startServer(t, echo)
	for name, rules := range map[string][]policy.MessageRule{
		"no rule": nil,
		"zstd":    {{Setting: set(t, "zstd"), MinSize: 64, Direction: policy.Request}},
	} {
		g := startGateway(t, "grpc://"+server, func(c *Config) { c.Sample = true })
		g.SetPolicy(rulesOf(t, rules...))
		c := connect(t, g.addr)
		const each = 5
		message := protobuf(500)
		for range each {
			mustEcho(t, c, message)
			mustEcho(t, c, message, grpc.UseCompressor("gzip"))
		}
		zipped, err := g.cfg.Codecs.AppendCompress(nil, message, "gzip")
		if err != nil {
			t.Fatal(err)
		}
		var request *sampled.Measured
		all := g.Measured()
		for i := range all {
			if all[i].Direction == "request" {
				request = &all[i]
			}
		}
		if request == nil || len(all) != 2 || request.Method != "/test.Echo/Unary" || request.Messages != 2*each || request.SampleMessages != 2*each {
			t.Fatalf("%s: %+v", name, all)
		}
		want := each * float64(len(message)+len(zipped))
		if got := float64(request.Bytes); got < 0.9*want || got > 1.1*want {
			t.Errorf("%s: %v bytes came, about %v were sent", name, got, want)
		}
		ratio := map[string]float64{}
		for _, e := range request.Estimates {
			ratio[e.Setting] = e.Ratio
		}
		if len(ratio) != 7 || ratio["zstd-3"] < 1 || ratio["cinch-proto"] < ratio["zstd-3"] || ratio[sampled.PairPlain] < ratio["zstd-3"] ||
			ratio[sampled.PairColumns] < ratio["cinch-proto"] {
			t.Errorf("%s: %v", name, ratio)
		}
		if g.SampleBytes() == 0 {
			t.Error("samples take no memory")
		}
	}
	if g := startGateway(t, "grpc://"+server, nil); g.Measured() != nil || g.SampleBytes() != 0 {
		t.Error("messages are measured without a request for it")
	}
}

// Messages are sampled only if Config.Sample is set. Status and estimates contain only numbers about them.
func TestMessagesAreMeasured(t *testing.T) {
	server := startServer(t, echo)
	g := startGateway(t, "grpc://"+server, func(c *Config) { c.Sample = true })
	quiet := startGateway(t, "grpc://"+server, nil)
	c := connect(t, g.addr)
	for range 50 {
		mustEcho(t, c, payload(1000))
		mustEcho(t, connect(t, quiet.addr), payload(1000))
	}
	mustEcho(t, c, payload(1000), grpc.UseCompressor("gzip"))
	mustEcho(t, c, payload(100_000))
	status := g.kinds.Status()
	if len(status) != 2 || len(quiet.kinds.Status()) != 0 {
		t.Fatalf("%+v, %+v", status, quiet.kinds.Status())
	}
	for _, s := range status {
		if s.Method != "/test.Echo/Unary" || s.Messages != 51 || s.Bytes != 150_000 || s.Compressed != 1 || s.SampleMessages != 50 {
			t.Errorf("%+v", s)
		}
		estimates := g.kinds.Estimates(s, []string{"s2", "zstd-1"}, g.cfg.Codecs.AppendCompress)
		if len(estimates) != 2 || estimates[0].Ratio < 2 || estimates[1].Ratio < estimates[0].Ratio {
			t.Errorf("%+v", estimates)
		}
	}
}

// The estimate for a pair equals the size of messages over a link, except for HTTP/2's headers and its smaller first
// windows.
func TestEstimateOfALink(t *testing.T) {
	w := compressionMethods(grpccodec.NewSet(grpccodec.Options{}), codec.New(codec.Options{}), 1<<20)
	for _, s := range w.Sequences {
		w, err := s.Begin()
		if err != nil {
			t.Fatal(err)
		}
		first, err := w.Append(nil, protobuf(2000))
		if err != nil {
			t.Fatal(err)
		}
		again, err := w.Append(nil, protobuf(2000))
		if err != nil || len(again) > len(first)/5 {
			t.Errorf("%s: %d bytes, then %d: %v", s.Setting, len(first), len(again), err)
		}
		w.Close()
	}
}

// A meter counts and samples the messages of a method and direction, if they are measured.
func TestMeter(t *testing.T) {
	kinds, samples := sampled.NewMessages(0), &sampled.Samples{}
	for _, m := range []*meter{{kinds: kinds}, {kinds: kinds, measured: &measuring{"/a/B", policy.Reply, samples}}} {
		m.observeSent([]byte("message"))
		m.countUnchanged(1 << 30)
		m.countCompressed(5)
		m.sampleReceived([]byte("received"), "")
		m.countReceived(1 << 20)
		wants, counts := m.shouldRead(100) && m.shouldSample(100), []int{len(kinds.Status()), samples.Bytes()}
		if measured := m.measured != nil; wants != measured || (counts[0] == 1) != measured || (counts[1] > 0) != measured {
			t.Errorf("measured: %v; messages are read: %v; kinds and bytes: %v", measured, wants, counts)
		}
		if m.shouldSample(sampled.MaxMessage + 1) {
			t.Error("too long messages are sampled")
		}
	}
	if s := kinds.Status()[0]; s.Method != "/a/B" || s.Direction != "reply" || s.Messages != 2 || s.Compressed != 1 || s.SampleMessages != 1 {
		t.Errorf("%+v", s)
	}
}
