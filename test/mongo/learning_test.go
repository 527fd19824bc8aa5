package mongo

import (
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// The admin page tells how far a training is while it goes on, and which dictionary came of it.
func TestTrainingIsShown(t *testing.T) {
	server := standalone(t)
	cfg := testenv.GatewayConfig{
		Protocol: "mongo", Rules: "- {name: all, setting: zstd-3, min_gain: 5%, dictionary: auto}",
		Process: testenv.SlowTraining, Upstream: "mongodb://" + server.Addr, Settings: "peers: true",
	}
	far := testenv.Gateway(t, cfg)
	cfg.Upstream, cfg.Settings = "mongodb://"+far.Addr, ""
	near := testenv.Gateway(t, cfg)
	w := startWriters(t, "mongodb://"+near.Addr+"/?directConnection=true")
	defer w.cancel()
	testenv.TrainsVisibly(t, near, func() {})
	testenv.HasDictionary(t, near, func() {})
}
