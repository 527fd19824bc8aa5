package grpc

import (
	"math/rand/v2"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// The admin page shows the progress of a training, and the dictionary that it makes.
func TestTrainingIsShown(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	cfg := testenv.GatewayConfig{
		Protocol: "grpc", Upstream: e.addr, Race: testenv.RaceDetector, Process: testenv.SlowTraining, Settings: "peers: true",
		Rules: "- {name: small, setting: zstd-3, dictionary: auto}",
	}
	far := testenv.Gateway(t, cfg)
	cfg.Upstream, cfg.Settings = "grpc://"+far.Addr, ""
	near := testenv.Gateway(t, cfg)
	conn, r := (*certificates)(nil).dial(t, near.Addr), rand.New(rand.NewPCG(1, 2))
	feed := func() {
		stream, err := openEcho(t.Context(), conn)
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			if err := roundTrip(stream, reading(r)); err != nil {
				t.Fatal(err)
			}
		}
		_ = stream.CloseSend()
	}
	testenv.TrainsVisibly(t, near, feed)
	testenv.HasDictionary(t, near)
}
