package mongo

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// language runs the shared scenario with one driver.
type language struct {
	name string
	// compressors are those that the driver supports on every machine: Node's zstd package lacks binaries
	// for some.
	compressors string
	command     func(t *testing.T) (name string, args, env []string)
}

var languages = []language{
	{"python", "zstd,snappy", func(t *testing.T) (string, []string, []string) {
		return testenv.Python(t, "python/requirements.txt"), []string{"python/scenario.py"}, nil
	}},
	{"node", "snappy", func(t *testing.T) (string, []string, []string) {
		return testenv.Program(t, "node"), []string{"node/scenario.cjs"}, []string{"NODE_PATH=" + testenv.NodeModules(t, "node/package.json")}
	}},
	{"java", "zstd,snappy", func(t *testing.T) (string, []string, []string) {
		return testenv.Program(t, "java"), []string{"-cp", testenv.JavaClasses(t, "java/pom.xml", "java/MongoScenario.java"), "MongoScenario"}, nil
	}},
}

// TestScenario runs the scenario with drivers that compress nothing and with the documented configuration,
// zstd preferred and snappy as fallback, against a server that supports all and one that supports only
// snappy. The server's own counters must change in a way that only the gateway, or the driver through it,
// can cause.
func TestScenario(t *testing.T) {
	servers := map[string]*mongotest.Server{"zstd": setOfOne(t)}
	if testenv.IsFull() {
		servers["snappy"] = mongotest.Start(t, mongotest.Config{ReplicaSet: "rs0", Args: []string{"--networkMessageCompressors", "snappy"}})
	}
	for used, server := range servers {
		g := serve(t, "mongodb://"+server.Addr, "", "")
		runScenario(t, used, g, func(t *testing.T) int64 { sent, _ := server.Compressed(t, used); return sent.Out })
	}
}

// TestScenarioThroughPair runs the scenario through two gateways. The server sees only plain messages, and
// the gateways count the bytes between them.
func TestScenarioThroughPair(t *testing.T) {
	server := setOfOne(t)
	sentBefore, receivedBefore := server.Compressed(t, "zstd")
	near, far := startPair(t, server)
	runScenario(t, "pair", near, func(t *testing.T) int64 {
		saved := func(g *testenv.GatewayServer) float64 {
			return g.Metric(t, "cinch_value_raw_bytes_total") - g.Metric(t, "cinch_value_stored_bytes_total")
		}
		return int64(min(saved(near), saved(far)))
	})
	if sent, received := server.Compressed(t, "zstd"); sent != sentBefore || received != receivedBefore {
		t.Errorf("beside mongod %+v and %+v were compressed", sent, received)
	}
}

// runScenario runs every language's programs. moved returns a counter that each of them must increase.
func runScenario(t *testing.T, name string, g *testenv.GatewayServer, moved func(t *testing.T) int64) {
	for _, l := range languages {
		for _, compressors := range []string{"", "&compressors=" + l.compressors} {
			t.Run(l.name+" "+name+strings.ReplaceAll(compressors, "&", " "), func(t *testing.T) {
				if l.name != "python" || name == "pair" && compressors != "" {
					testenv.Full(t)
				}
				program, args, env := l.command(t)
				before := moved(t)
				cmd := exec.CommandContext(t.Context(), program, append(args, "mongodb://"+g.Addr+"/?replicaSet=rs0"+compressors)...)
				cmd.Env = append(os.Environ(), env...)
				out, err := cmd.CombinedOutput()
				if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), "ok") {
					t.Fatalf("%v\n%s", err, out)
				}
				if after := moved(t); after <= before {
					t.Errorf("the counters for %s did not move: %d, %d", name, before, after)
				}
			})
		}
	}
}
