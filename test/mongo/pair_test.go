package mongo

import (
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// dictionaries waits until all gateways have made dictionaries.
func dictionaries(t *testing.T, gateways ...*testenv.GatewayServer) {
	t.Helper()
	testenv.Eventually(t, "dictionaries on both sides", func() bool {
		for _, g := range gateways {
			if !strings.Contains(g.Output(), "messages have a dictionary") {
				return false
			}
		}
		return true
	})
}

// startDictPair starts a pair that trains dictionaries soon and logs it.
func startDictPair(t *testing.T, toFar, server string) (near, far *testenv.GatewayServer) {
	t.Helper()
	cfg := testenv.GatewayConfig{
		Protocol: "mongo", Rules: "- {name: all, setting: zstd-3, min_gain: 5%, dictionary: auto}",
		Process:  "training: {min_samples: 300, poll: 100ms, interval: 1m}",
		Upstream: "mongodb://" + server, Settings: "peers: true",
	}
	far = testenv.Gateway(t, cfg)
	if toFar == "" {
		toFar = far.Addr
	}
	cfg.Upstream, cfg.Settings = "mongodb://"+toFar, ""
	return testenv.Gateway(t, cfg), far
}

// TestPairIsReplaced has clients write continuously while each gateway of a pair is killed and restarted.
// In between the far one is replaced by a gateway that is no peer, by mongod itself, and by a far gateway
// without dictionaries. No acknowledged write is lost or changed, and clients continue each time.
func TestPairIsReplaced(t *testing.T) {
	server := setOfOne(t)
	sentBefore, receivedBefore := server.Compressed(t, "zstd")
	between := testenv.StartRelay(t, server.Addr)
	near, far := startDictPair(t, between.Addr, server.Addr)
	between.Point(far.Addr)
	w := startWriters(t, "mongodb://"+near.Addr+"/?directConnection=true")
	w.goOn(t)
	dictionaries(t, near)
	saves := func(when string) {
		testenv.Eventually(t, "inserts are less than 40 % with dictionaries "+when, func() bool {
			raw, stored := near.Metric(t, "cinch_value_raw_bytes_total"), near.Metric(t, "cinch_value_stored_bytes_total")
			w.goOn(t)
			raw, stored = near.Metric(t, "cinch_value_raw_bytes_total")-raw, near.Metric(t, "cinch_value_stored_bytes_total")-stored
			return raw > 2.5*stored
		})
	}
	saves("at first")
	if sent, received := server.Compressed(t, "zstd"); sent != sentBefore || received != receivedBefore {
		t.Errorf("beside mongod %+v and %+v were compressed", sent, received)
	}

	far.Kill()
	if err := far.Restart(); err != nil {
		t.Fatal(err)
	}
	w.goOn(t)
	saves("after the far gateway has forgotten them")

	near.Kill()
	if err := near.Restart(); err != nil {
		t.Fatal(err)
	}
	w.goOn(t)

	stranger := serve(t, "mongodb://"+server.Addr, "", "- {name: all, setting: raw}")
	between.Point(stranger.Addr)
	w.goOn(t)

	_, before := server.Compressed(t, "zstd")
	between.Point(server.Addr)
	w.goOn(t)
	if _, after := server.Compressed(t, "zstd"); after.Out <= before.Out {
		t.Error("mongod itself was not sent what it can decompress")
	}

	_, other := startDictPair(t, "", server.Addr)
	between.Point(other.Addr)
	w.goOn(t)

	w.stop()
	w.check(t, server)
	if n := near.Metric(t, "cinch_errors_total"); n > 0 {
		t.Logf("the near gateway counts %.0f errors:\n%s", n, near.Output())
	}
}
