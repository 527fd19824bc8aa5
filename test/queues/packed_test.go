package queues

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/testenv"
)

// A packer runs over a queue with waiting jobs. If the queue's keys are excluded none of them is
// compressed. Otherwise the gateway decompresses the values that BullMQ's scripts declare. Either way the
// jobs, with their retries and their parents, end as they do without Cinch.
func TestPacked(t *testing.T) {
	needsFlag(t)
	q := queue{name: "BullMQ"}
	program, env := []string{testenv.Program(t, "node"), abs(t, "node/packed.cjs")}, nodePath(t)
	direct := testenv.Redis(t)
	_ = q.run(t, program, env, direct.Addr, "fill")
	want := q.run(t, program, env, direct.Addr, "drain")
	for _, exclude := range []string{`["bull:*"]`, "[]"} {
		t.Run("exclude "+exclude, func(t *testing.T) {
			server := testenv.Redis(t)
			gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr, Rules: rules, Settings: "exclude: " + exclude})
			_ = q.run(t, program, env, gateway.Addr, "fill")
			testenv.Run(t, "", testenv.Cinch(t), "pack", "--config", config(t, server, exclude))
			client := goredis.NewClient(&goredis.Options{Addr: server.Addr})
			defer client.Close()
			if n := len(sealedValues(t, client)); (n > 0) != (exclude == "[]") {
				t.Errorf("%d keys hold sealed values after packing", n)
			}
			compare(t, want, q.run(t, program, env, gateway.Addr, "drain"))
		})
	}
}

// config writes a packer's configuration and returns its path.
func config(t *testing.T, server *testenv.RedisServer, exclude string) string {
	t.Helper()
	text := fmt.Sprintf("gateways:\n  - {name: queue, protocol: redis, listen: 127.0.0.1:1, upstream: %q, exclude: %s, rules: [\n%s]}\n",
		server.URL(), exclude, strings.ReplaceAll(strings.TrimSpace(rules), "- {", ", {")[1:])
	path := filepath.Join(t.TempDir(), "pack.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
