package cluster

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// Other languages' clients run in cluster mode through gateways. Each program writes and reads keys of all
// slots, from replicas too, and prints the node addresses that it was told.
func TestClients(t *testing.T) {
	needsClients(t)
	nodes := testenv.Cluster(t, 3, 3)
	gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: upstreamOf(nodes[:1])})
	_ = throughEach(t, gateway, nodes, 2)
	for _, c := range []struct {
		name    string
		command func(t *testing.T) []string
	}{
		{"redis-py", func(t *testing.T) []string {
			return []string{testenv.Python(t, "../clients/python/requirements.txt"), "../clients/python/cluster.py"}
		}},
		{"ioredis", func(t *testing.T) []string {
			t.Setenv("NODE_PATH", testenv.NodeModules(t, "../clients/node/package.json"))
			return []string{testenv.Program(t, "node"), "../clients/node/cluster.cjs"}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			command := c.command(t)
			path, err := filepath.Abs(command[1])
			if err != nil {
				t.Fatal(err)
			}
			host, port, _ := net.SplitHostPort(gateway.Addr)
			cmd := exec.CommandContext(t.Context(), command[0], path, host, port)
			cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if !strings.Contains(string(out), "400 keys right") {
				t.Errorf("%s", out)
			}
			for _, n := range nodes {
				if strings.Contains(string(out), n.Addr) {
					t.Errorf("the client was told of %s:\n%s", n.Addr, out)
				}
			}
		})
	}
	if gateway.Metric(t, "cinch_values_sealed_total") < 400 {
		t.Error("values were not sealed")
	}
}
