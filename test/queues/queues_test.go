package queues

import (
	"bytes"
	"context"
	"flag"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

const runTimeout = 5 * time.Minute

var full = flag.Bool("queues", false, "run the queues; they take a minute or two")

// needsFlag keeps the standard run short: .ci/run has a step for these.
func needsFlag(t *testing.T) {
	t.Helper()
	if !*full {
		t.Skip("run with -queues")
	}
}

// queue is one library.
type queue struct {
	name    string
	exclude string // YAML list from docs/REDIS.md
	own     string // prefixes of the library's keys, which hold no compressed value then
	command func(t *testing.T) []string
	env     func(t *testing.T) string
}

var all = []queue{
	{name: "BullMQ", exclude: `["bull:*"]`, own: "bull:", command: node, env: nodePath},
	{name: "Celery", exclude: `[]`, command: python("celery_driver.py")},
	{name: "Dramatiq", exclude: `["dramatiq:*"]`, own: "dramatiq:", command: python("dramatiq_driver.py")},
	{name: "RQ", exclude: `["rq:*"]`, own: "rq:", command: python("rq_driver.py")},
	{name: "Sidekiq", exclude: `[]`, command: ruby},
	{name: "Lock", exclude: `[]`, command: python("lock_driver.py")},
}

// rules compress strings, hashes and streams of all keys that are not excluded.
const rules = `
- {name: hashes, key: "*", type: hash, setting: zstd-1}
- {name: streams, key: "*", type: stream, setting: lz4}
- {name: strings, key: "*", type: string, setting: zstd-3}
`

// ways are configurations of the gateway; the first is the documented one.
var ways = []struct {
	name     string
	excludes bool
	force    bool
}{
	{"as documented", true, false},
	{"all sealed that may be", true, true},
	{"nothing excluded", false, false},
}

func TestQueues(t *testing.T) {
	needsFlag(t)
	for _, q := range all {
		command, env := q.command(t), "" // installs missing libraries here, one at a time
		if q.env != nil {
			env = q.env(t)
		}
		t.Run(q.name, func(t *testing.T) {
			t.Parallel()
			want := q.run(t, command, env, testenv.Redis(t).Addr)
			if strings.Count(want, "\n") < 7 {
				t.Fatalf("directly it says only:\n%s", want)
			}
			for _, w := range ways {
				if w.name == "nothing excluded" && q.own == "" {
					continue // the docs exclude nothing for it, so this is the documented way
				}
				t.Run(w.name, func(t *testing.T) {
					exclude := q.exclude
					if !w.excludes {
						exclude = "[]"
					}
					q.through(t, command, env, exclude, w.force, want)
				})
			}
		})
	}
}

func (q *queue) through(t *testing.T, command []string, env, exclude string, force bool, want string) {
	server := testenv.Redis(t)
	gateway := testenv.Gateway(t, testenv.GatewayConfig{
		Upstream: server.Addr, Rules: rules, Settings: "exclude: " + exclude, Force: force,
	})
	compare(t, want, q.run(t, command, env, gateway.Addr))
	if n := gateway.Metric(t, "cinch_values_sealed_total"); n < 40 {
		t.Errorf("%.0f values were sealed", n)
	}
	if n := gateway.Metric(t, "cinch_errors_total"); n > 0 {
		t.Errorf("the gateway counted %.0f errors", n)
	}
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr})
	defer client.Close()
	sealed, own := 0, 0
	for key, n := range sealedValues(t, client) {
		sealed += n
		if q.own != "" && exclude != "[]" && strings.HasPrefix(key, q.own) {
			own += n
		}
	}
	if sealed == 0 || own > 0 {
		t.Errorf("%d sealed values are stored, %d of them in keys that are excluded", sealed, own)
	}
}

// sealedValues counts a server's envelopes by key.
func sealedValues(t *testing.T, c *goredis.Client) map[string]int {
	t.Helper()
	ctx, found := t.Context(), map[string]int{}
	keys := c.Scan(ctx, 0, "*", 1000).Iterator()
	for keys.Next(ctx) {
		key := keys.Val()
		var values []string
		switch c.Type(ctx, key).Val() {
		case "string":
			values = []string{c.Get(ctx, key).Val()}
		case "hash":
			values = c.HVals(ctx, key).Val()
		case "stream":
			for _, e := range c.XRange(ctx, key, "-", "+").Val() {
				for _, v := range e.Values {
					values = append(values, v.(string))
				}
			}
		}
		for _, v := range values {
			if envelope.IsSealed([]byte(v)) {
				found[key]++
			}
		}
	}
	if err := keys.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

// compare reports the features whose results differ.
func compare(t *testing.T, direct, through string) {
	t.Helper()
	want, got := strings.Split(direct, "\n"), strings.Split(through, "\n")
	if len(want) != len(got) {
		t.Errorf("%d lines directly, %d through the gateway", len(want)-1, len(got)-1)
	}
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			t.Errorf("differs\n direct:  %.600s\n through: %.600s", want[i], got[i])
		}
	}
}

// run runs a driver to its end and returns what it printed.
func (q *queue) run(t *testing.T, command []string, env, addr string, more ...string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), runTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], slices.Concat(command[1:], []string{host, port}, more)...)
	cmd.Dir = filepath.Dir(command[1])
	cmd.Env = append(os.Environ(), "QUEUE_HOST="+host, "QUEUE_PORT="+port, "PYTHONDONTWRITEBYTECODE=1", "PYTHONWARNINGS=ignore", env)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = 5 * time.Second // a worker that outlives its driver holds the pipes open
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%.3000s\n%s", q.name, err, stdout.String(), tail(stderr.String()))
	}
	return stdout.String()
}

func tail(text string) string { return text[max(0, len(text)-3000):] }

func node(t *testing.T) []string {
	return []string{testenv.Program(t, "node"), abs(t, "node/bullmq.cjs")}
}

func nodePath(t *testing.T) string { return "NODE_PATH=" + testenv.NodeModules(t, "node/package.json") }

func python(program string) func(*testing.T) []string {
	return func(t *testing.T) []string {
		return []string{testenv.Python(t, "python/requirements.txt"), abs(t, "python/"+program)}
	}
}

func ruby(t *testing.T) []string {
	_ = testenv.Program(t, "sidekiq")
	return []string{testenv.Program(t, "ruby"), abs(t, "ruby/driver.rb")}
}

func abs(t *testing.T, path string) string {
	t.Helper()
	out, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
