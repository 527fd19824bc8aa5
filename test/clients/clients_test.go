package clients

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

const runTimeout = 6 * time.Minute

// client is one library with one version of the protocol.
type client struct {
	name string
	resp int
	run  func(t *testing.T, addr string, resp int, path string) string
}

var clients = []client{
	{"go-redis", 2, runGo},
	{"go-redis", 3, runGo},
	{"redis-py", 2, runPython},
	{"redis-py", 3, runPython},
	{"ioredis", 2, runNode("ioredis")},
	{"node-redis", 3, runNode("node-redis")},
	{"jedis", 2, runJava},
	{"jedis", 3, runJava},
}

// gateways are configurations with which a gateway compresses during the scenario.
var gateways = []struct {
	name string
	cfg  testenv.GatewayConfig
}{
	{"default", testenv.GatewayConfig{}},
	{"rules", testenv.GatewayConfig{Rules: sealAllTypes}},
	{"force", testenv.GatewayConfig{Force: true}},
}

const sealAllTypes = `
- {name: hashes, key: "*", type: hash, setting: lz4}
- {name: streams, key: "*", type: stream, setting: zstd-1}
- {name: large, key: "*", type: string, min_size: 64KiB, setting: s2}
- {name: strings, key: "*", type: string, setting: zstd-3}
`

func TestScenario(t *testing.T) {
	path, err := filepath.Abs("scenario.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range clients {
		t.Run(fmt.Sprintf("%s/resp%d", c.name, c.resp), func(t *testing.T) {
			if c.name != "go-redis" {
				testenv.Full(t)
			}
			want := c.run(t, testenv.Redis(t).Addr, c.resp, path)
			if n := strings.Count(want, "\n"); n < 60 {
				t.Fatalf("%d operations ran directly:\n%s", n, want)
			}
			for _, g := range gateways {
				t.Run(g.name, func(t *testing.T) {
					if g.name == "default" {
						testenv.Full(t)
					}
					cfg := g.cfg
					cfg.Upstream = testenv.Redis(t).Addr
					gateway := testenv.Gateway(t, cfg)
					compare(t, want, c.run(t, gateway.Addr, c.resp, path))
					if gateway.Metric(t, "cinch_values_sealed_total") == 0 {
						t.Error("nothing was sealed, so nothing was tested")
					}
				})
			}
		})
	}
}

// TestScenarioIsDeterministic checks that two direct runs of the scenario do not differ either.
func TestScenarioIsDeterministic(t *testing.T) {
	for _, resp := range []int{2, 3} {
		first := runGo(t, testenv.Redis(t).Addr, resp, "scenario.json")
		compare(t, first, runGo(t, testenv.Redis(t).Addr, resp, "scenario.json"))
	}
}

// compare reports the operations whose replies differ.
func compare(t *testing.T, direct, through string) {
	t.Helper()
	want, got := strings.Split(direct, "\n"), strings.Split(through, "\n")
	differences := 0
	for i := range max(len(want), len(got)) {
		w, g := lineAt(want, i), lineAt(got, i)
		if w == g {
			continue
		}
		if differences++; differences <= 20 {
			t.Errorf("operation %d differs\n direct:  %.600s\n through: %.600s", i+1, w, g)
		}
	}
	if differences > 0 {
		t.Errorf("%d of %d operations differ", differences, len(want)-1)
	}
}

func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}

func runGo(t *testing.T, addr string, resp int, path string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runTimeout)
	defer cancel()
	out, err := runGoRedis(ctx, addr, resp, path)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func runPython(t *testing.T, addr string, resp int, path string) string {
	t.Helper()
	return runProgram(t, addr, resp, path, testenv.Python(t, "python/requirements.txt"), "python/scenario.py")
}

func runNode(library string) func(*testing.T, string, int, string) string {
	return func(t *testing.T, addr string, resp int, path string) string {
		t.Helper()
		t.Setenv("NODE_PATH", testenv.NodeModules(t, "node/package.json"))
		return runProgram(t, addr, resp, path, testenv.Program(t, "node"), "node/"+library+".cjs")
	}
}

func runJava(t *testing.T, addr string, resp int, path string) string {
	t.Helper()
	return runProgram(t, addr, resp, path, testenv.Program(t, "java"), "-cp", testenv.JavaClasses(t, "java/pom.xml", "java/Scenario.java", "java/Replies.java", "java/Values.java"), "Scenario")
}

// runProgram runs a client program with HOST PORT RESP SCENARIO and returns its output.
func runProgram(t *testing.T, addr string, resp int, path, name string, args ...string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), runTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, append(args, host, port, strconv.Itoa(resp), path)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
		t.Fatalf("%s: %v\nlast line: %.300s\n%s", name, err, lines[len(lines)-1], stderr.String())
	}
	return stdout.String()
}
