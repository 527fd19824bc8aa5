package mongo

import (
	"flag"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

var (
	suiteNames = flag.String("suite", "", "whose own tests TestSuites runs: pymongo, go, or both with a comma; none: it is skipped")
	suiteOn    = flag.String("on", "standalone,rs", "what server: standalone, rs (a replica set of one)")
	suiteWays  = flag.String("way", "gateway,pair", "how it is reached, beside direct: gateway, pair; direct: that alone")
	suiteFiles = flag.String("files", "", "which of pymongo's files, or a pattern of the Go driver's tests; none: all")
)

// suite is a driver's own tests.
type suite struct {
	name string
	// run runs tests against the server at addr and returns their outcomes: pass, fail or skip. If names is
	// empty it runs all tests.
	run func(t *testing.T, addr, set, log string, names []string) testenv.Outcomes
}

// TestSuites runs drivers' own tests directly and through gateways that compress everything they may. A
// test must have the same outcome each time. The servers' own counters must show that messages were
// compressed, and their logs that no connection bypassed the gateways.
func TestSuites(t *testing.T) {
	if *suiteNames == "" {
		t.Skip("takes its time; run test/mongo/suites")
	}
	var names []string // each with the kind of server
	for _, name := range strings.Split(*suiteNames, ",") {
		for _, on := range strings.Split(*suiteOn, ",") {
			names = append(names, name+" "+on)
		}
	}
	testenv.RunSuites(t, names, func(t *testing.T, name, log string) bool {
		name, on, _ := strings.Cut(name, " ")
		return runSuite(t, pickSuite(t, name), on, log)
	})
}

func pickSuite(t *testing.T, name string) suite {
	t.Helper()
	switch name {
	case "pymongo":
		return suite{name, pymongoSuite}
	case "go":
		return suite{name, goSuite}
	}
	t.Fatalf("no suite %q", name)
	return suite{}
}

func runSuite(t *testing.T, s suite, on, log string) (same bool) {
	direct := startPlace(t, on, "direct")
	want := s.run(t, direct.addr, direct.set, log+"-direct.log", nil)
	t.Logf("direct: %s", want)
	if len(want) == 0 {
		t.Fatalf("no test ran; see %s-direct.log", log)
	}
	for _, name := range want.Failing() {
		t.Logf("fails directly: %s", name)
	}
	same = true
	for _, way := range strings.Split(*suiteWays, ",") {
		if way == "direct" {
			continue
		}
		t.Run(way, func(t *testing.T) {
			p := startPlace(t, on, way)
			got := s.run(t, p.addr, p.set, log+"-"+way+".log", nil)
			t.Logf("%s: %s", way, got)
			same = want.Same(t, got, nil, func(names []string) (testenv.Outcomes, testenv.Outcomes) {
				return s.run(t, direct.addr, direct.set, log+"-"+way+"-again-direct.log", names),
					s.run(t, p.addr, p.set, log+"-"+way+"-again.log", names)
			}) && same
			p.check(t)
		})
	}
	return same
}

// place is the server of one suite's run, with the gateways in front of it.
type place struct {
	addr     string // address for the tests
	set      string // the replica set's name, or ""
	way      string
	server   *mongotest.Server
	log      string // of mongod
	from     int64  // offset at which the run begins in it
	relay    *testenv.Relay
	gateways []*testenv.GatewayServer // from the client's side
}

// everything makes a gateway compress all that it may.
const everything = "- {name: all, setting: zstd-3, min_size: 0, min_gain: 0%}"

func startPlace(t *testing.T, on, way string) *place {
	t.Helper()
	p := &place{way: way, log: filepath.Join(t.TempDir(), "mongod.log")}
	cfg := mongotest.Config{Args: []string{"--logpath", p.log}}
	switch on {
	case "rs":
		cfg.ReplicaSet, cfg.Uninitiated, p.set = "rs0", true, "rs0"
	case "standalone":
	default:
		t.Fatalf("-on %s: want standalone or rs", on)
	}
	p.server = mongotest.Start(t, cfg)
	p.addr = p.server.Addr
	if p.set != "" { // in a subtest, at whose end its client is disconnected
		t.Run("initiate", func(t *testing.T) { p.server.Initiate(t, p.addr) })
	}
	if way == "direct" {
		return p
	}
	p.relay = testenv.StartRelay(t, p.server.Addr)
	switch way {
	case "gateway":
		p.gateways = []*testenv.GatewayServer{force(t, testenv.GatewayConfig{Upstream: "mongodb://" + p.relay.Addr, Rules: everything})}
	case "pair":
		near, far := servePair(t, p.relay.Addr)
		p.gateways = []*testenv.GatewayServer{near, far}
	default:
		t.Fatalf("-way %s: want direct, gateway or pair", way)
	}
	p.addr = p.gateways[0].Addr
	info, err := os.Stat(p.log)
	if err != nil {
		t.Fatal(err)
	}
	p.from = info.Size()
	return p
}

func force(t testing.TB, cfg testenv.GatewayConfig) *testenv.GatewayServer {
	t.Helper()
	cfg.Protocol, cfg.Force, cfg.Args = "mongo", true, []string{"--log-level", "warn"}
	return testenv.Gateway(t, cfg)
}

// servePair starts a gateway beside a server and one beside its clients.
func servePair(t testing.TB, upstream string) (near, far *testenv.GatewayServer) {
	t.Helper()
	far = force(t, testenv.GatewayConfig{Upstream: "mongodb://" + upstream, Settings: "peers: true", Rules: everything})
	return force(t, testenv.GatewayConfig{Upstream: "mongodb://" + far.Addr, Rules: everything}), far
}

// check checks the server's own counters: both directions were compressed, and only the gateway connected.
// Behind a pair's far gateway mongod sees only plain messages; there the gateways' counters are checked.
func (p *place) check(t *testing.T) {
	t.Helper()
	through, others := past(t, p.relay, p.log, p.from)
	if len(others) > 0 || through == 0 {
		t.Errorf("%d connections came through the gateway, and others past it: %v", through, others)
	}
	sent, received := p.server.Compressed(t, "zstd")
	t.Logf("mongod compressed %d to %d bytes and decompressed %d to %d, on %d connections of the gateway's", sent.In, sent.Out, received.In, received.Out, through)
	if moved := sent.Out > 0 && received.Out > 0 && sent.In > sent.Out; moved == (p.way == "pair") {
		t.Error("these counters did not move as they had to")
	}
	for i, g := range p.gateways {
		raw, stored := g.Metric(t, "cinch_value_raw_bytes_total"), g.Metric(t, "cinch_value_stored_bytes_total")
		t.Logf("gateway %d of %d made %.0f bytes of %.0f", i+1, len(p.gateways), stored, raw)
		if raw == 0 || stored >= raw {
			t.Errorf("gateway %d of %d made %.0f bytes of %.0f", i+1, len(p.gateways), stored, raw)
		}
	}
}

// hostPort splits an address for programs that take its parts.
func hostPort(t *testing.T, addr string) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}
