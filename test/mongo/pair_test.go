package mongo

import (
	"fmt"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// startPair starts a gateway beside a server, and one beside clients, whose upstream is the first. They use links.
func startPair(t testing.TB, server *mongotest.Server) (near, far *testenv.GatewayServer) {
	t.Helper()
	far = serve(t, "mongodb://"+server.Addr, "peers: true", "- {name: all, setting: zstd-3}")
	return serve(t, "mongodb://"+far.Addr, "", ""), far
}

// requestBytes returns the bytes that clients have sent to a gateway, and those that it has sent upstream.
func requestBytes(t *testing.T, g *testenv.GatewayServer) (came, sent float64) {
	t.Helper()
	name := func(what, side string) string {
		return fmt.Sprintf("cinch_%s_bytes_total{gateway=\"mongo\",side=%q}", what, side)
	}
	return g.Metric(t, name("received", "client")), g.Metric(t, name("sent", "upstream"))
}

// TestPairIsReplaced has clients write continuously while each gateway of a pair is killed and restarted, and the far
// one is replaced by a gateway that accepts no links, and by mongod itself. No acknowledged write is lost or changed,
// and clients continue each time. After each restart inserts again take far fewer bytes between the gateways than from
// the clients.
func TestPairIsReplaced(t *testing.T) {
	server := setOfOne(t)
	sentBefore, receivedBefore := server.Compressed(t, "zstd")
	near, far := startPair(t, server)
	w := startWriters(t, "mongodb://"+near.Addr+"/?directConnection=true")
	saves := func(when string) {
		t.Helper()
		for began := time.Now(); ; {
			w.goOn(t) // connections are opened, and the history is filled
			came, sent := requestBytes(t, near)
			w.goOn(t)
			cameAfter, sentAfter := requestBytes(t, near)
			ratio := (sentAfter - sent) / (cameAfter - came)
			if ratio < 0.3 { // zstd without history takes 45 %
				t.Logf("%s inserts take %.0f %% between the gateways", when, 100*ratio)
				return
			}
			if time.Since(began) > 90*time.Second {
				t.Errorf("%s inserts still take %.0f %% between the gateways\n%s", when, 100*ratio, near.Output())
				return
			}
		}
	}
	restart := func(g *testenv.GatewayServer) {
		t.Helper()
		if err := g.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	saves("at first")

	far.Kill()
	restart(far)
	saves("after a restart of the far gateway")

	near.Kill()
	restart(near)
	saves("after a restart of the near gateway")
	if sent, received := server.Compressed(t, "zstd"); sent != sentBefore || received != receivedBefore {
		t.Errorf("beside mongod %+v and %+v were compressed", sent, received)
	}

	far.Kill()
	stranger := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "mongo", Listen: far.Addr, Upstream: "mongodb://" + server.Addr, Rules: "- {name: all, setting: raw}"})
	w.goOn(t)

	stranger.Kill()
	_, before := server.Compressed(t, "zstd")
	inPlace, err := testenv.RelayOn("tcp", far.Addr, server.Addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.goOn(t)
	inPlace.Close()
	if _, after := server.Compressed(t, "zstd"); after.Out <= before.Out {
		t.Error("mongod itself was not sent what it can decompress")
	}

	restart(far)
	w.goOn(t)
	near.Kill()
	restart(near)
	saves("after all that")

	w.stop()
	w.check(t, server)
	if n := near.Metric(t, "cinch_errors_total"); n > 0 {
		t.Logf("the near gateway counts %.0f errors:\n%s", n, near.Output())
	}
}
