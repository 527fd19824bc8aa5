package plan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/internal/estimate/plan"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// ended is the result of a command.
type ended struct {
	code     int
	out, err string
	rss      int64 // peak resident memory in bytes
}

func cinch(t testing.TB, args ...string) ended {
	t.Helper()
	cmd := exec.Command(testenv.Cinch(t), args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	e := ended{code: cmd.ProcessState.ExitCode(), out: out.String(), err: errs.String()}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		e.rss = usage.Maxrss << 10
	}
	return e
}

func report(t testing.TB, args ...string) plan.Report {
	t.Helper()
	e := cinch(t, append([]string{"plan", "--json", "--max-time", "15m"}, args...)...)
	var r plan.Report
	if err := json.Unmarshal([]byte(e.out), &r); e.code != 0 || err != nil {
		t.Fatalf("cinch plan %q ended with %d: %v\n%s%s", args, e.code, err, e.out, e.err)
	}
	return r
}

func connect(t testing.TB, addr string) *goredis.Client {
	c := goredis.NewClient(&goredis.Options{Addr: addr, MaxRetries: -1, ReadTimeout: time.Minute})
	t.Cleanup(func() { c.Close() })
	return c
}

var words = strings.Fields("alpha beta gamma delta order item table chair lamp noodle soup rice curry grill garlic pepper onion tomato basil cheese bread butter honey mint lemon sugar salt smoke river stone cloud forest winter summer spring autumn copper silver golden blue green red amber violet")

func text(r *rand.Rand, n int) string {
	some := make([]string, n)
	for i := range some {
		some[i] = words[r.IntN(len(words))]
	}
	return strings.Join(some, " ")
}

// menu returns 10 to 120 KB of JSON.
func menu(r *rand.Rand) string {
	var items []string
	for range 40 + r.IntN(400) {
		items = append(items, fmt.Sprintf(`{"id":%d,"name":%q,"description":%q,"price":%d.%02d,"available":%v}`,
			r.Int64N(1e9), text(r, 3), text(r, 8+r.IntN(22)), r.IntN(40), r.IntN(100), r.IntN(9) > 0))
	}
	return fmt.Sprintf(`{"restaurant":%d,"items":[%s]}`, r.IntN(1e6), strings.Join(items, ","))
}

// document returns about 300 bytes of JSON.
func document(r *rand.Rand) string {
	return fmt.Sprintf(`{"id":%d,"customer":%d,"status":%q,"created":"2026-%02d-%02dT%02d:%02d:00Z","total":%d.%02d,"currency":"EUR","lines":[{"sku":"SKU-%06d","qty":%d},{"sku":"SKU-%06d","qty":%d}],"note":%q}`,
		r.IntN(1e9), r.IntN(1e6), []string{"new", "paid", "shipped", "done"}[r.IntN(4)], 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60),
		r.IntN(300), r.IntN(100), r.IntN(1e6), 1+r.IntN(5), r.IntN(1e6), 1+r.IntN(5), text(r, 8+r.IntN(8)))
}

func noise(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

// part returns the number of keys to use instead of n: all with make full, else a fifth.
func part(n int) int { return n / codectest.Amount(5, 5, 1) }

// mix fills a server with large menus, small documents, counters, images and hashes.
func mix(t testing.TB, c *goredis.Client) {
	ctx, r := context.Background(), rand.New(rand.NewPCG(1, 2))
	pipe := c.Pipeline()
	put := func(n int, f func(i int)) {
		for i := range n {
			if f(i); pipe.Len() >= 500 || i == n-1 {
				if _, err := pipe.Exec(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	put(part(300), func(i int) { pipe.Set(ctx, fmt.Sprintf("menu:%d", i), menu(r), 0) })
	put(part(20000), func(i int) { pipe.Set(ctx, fmt.Sprintf("order:%d:doc", i), document(r), 0) })
	put(part(5000), func(i int) { pipe.Set(ctx, fmt.Sprintf("hits:%d", i), r.IntN(1e9), 0) })
	put(part(300), func(i int) { pipe.Set(ctx, fmt.Sprintf("img:%d:jpg", i), noise(r, 2000+r.IntN(30000)), 0) })
	put(part(3000), func(i int) {
		pipe.HSet(ctx, fmt.Sprintf("user:%d", i), "profile", document(r), "visits", r.IntN(1000), "bio", text(r, 30+r.IntN(60)))
	})
	put(part(500), func(i int) { pipe.RPush(ctx, fmt.Sprintf("queue:%d", i), "a", "b") })
}

// held returns the bytes that the server's allocator uses for the values of a pattern.
func held(t testing.TB, c *goredis.Client, pattern, kind string) (bytes int64) {
	ctx := context.Background()
	typ := policy.String
	if kind == "hash" {
		typ = policy.Hash
	}
	for cursor := uint64(0); ; {
		keys, next, err := c.Scan(ctx, cursor, pattern, 1000).Result()
		must(t, nil, err)
		replies, err := c.Pipelined(ctx, func(p goredis.Pipeliner) error {
			for _, key := range keys {
				if kind == "hash" {
					p.HVals(ctx, key)
				} else {
					p.Get(ctx, key)
				}
			}
			return nil
		})
		// The pattern matches keys of other types too.
		if err != nil && !goredis.HasErrorPrefix(err, "WRONGTYPE") {
			t.Fatal(err)
		}
		for _, r := range replies {
			var values []string
			switch r := r.(type) {
			case *goredis.StringSliceCmd:
				values = r.Val()
			case *goredis.StringCmd:
				values = []string{r.Val()}
			}
			for _, v := range values {
				size, _ := policy.Cost(typ, len(v), len(v))
				bytes += int64(size)
			}
		}
		if cursor = next; cursor == 0 {
			return bytes
		}
	}
}

// For each group, the plan's prediction equals the size that the packer stores with the written policy.
// Images and counters are left alone.
func TestPlanPredictsWhatPackStores(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	c := connect(t, server.Addr)
	mix(t, c)
	dir := t.TempDir()
	file := filepath.Join(dir, "cinch.yaml")
	args := []string{server.URL(), "--write", file, "--minimize", "bytes", "--seed", "1"}
	if !testenv.IsFull() {
		args = append(args, "--candidates", "lz4,zstd-3,zstd-3+dict")
	}
	r := report(t, args...)
	if !r.LookedAt.Whole || r.LookedAt.Names != int64(part(29100)) {
		t.Errorf("looked at %+v", r.LookedAt)
	}
	groups := map[string]*plan.GroupPlan{}
	for _, g := range r.Groups {
		groups[g.Pattern+" "+g.Type] = g
		if now := held(t, c, g.Pattern, g.Type); off(g.Now, now) > 0.02 {
			t.Errorf("%s %s: %d bytes now, says the plan; the server holds %d", g.Pattern, g.Type, g.Now, now)
		}
	}
	for _, left := range []string{"hits:* string", "img:*:jpg string"} {
		if g := groups[left]; g == nil || g.Choice >= 0 {
			t.Errorf("%s: %+v, want it left alone", left, g)
		}
	}
	if n := r.Left["lists, sets and other types, which are never compressed"]; n != float64(part(500)) {
		t.Errorf("%v lists were counted: %v", n, r.Left)
	}
	if e := cinch(t, "config", "check", file); e.code != 0 {
		t.Fatalf("config check: %s%s", e.out, e.err)
	}
	if e := cinch(t, "pack", "--config", file); e.code != 0 {
		t.Fatalf("pack ended with %d: %s%s", e.code, e.out, e.err)
	}
	for name, g := range groups {
		after := held(t, c, g.Pattern, g.Type)
		predicted, margin := g.After(), 0.0
		if o := g.Chosen(); o != nil {
			predicted -= o.DictionaryCost
			margin = float64(o.Margin) / float64(max(o.After, 1))
		}
		t.Logf("%-20s %10d -> %10d predicted, give or take %.2f%%, %10d stored, off by %.2f%%", name, g.Now, predicted, 100*margin, after, 100*off(predicted, after))
		limit := max(0.03, margin)
		if after < predicted {
			// With few values, the written dictionary learns from more values than the one that was
			// measured.
			limit = max(0.06, margin)
		}
		if off(predicted, after) > limit {
			t.Errorf("%s: %d bytes predicted, %d are stored", name, predicted, after)
		}
	}
	for _, want := range []string{"menu:* string", "order:*:doc string", "user:* hash"} {
		if g := groups[want]; g == nil || g.Choice < 0 {
			t.Errorf("%s is left alone: %+v", want, g)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if again := report(t, server.URL(), "--candidates", "lz4", "--dictionaries", "none"); again.Left["sealed already"] < float64(part(20000)) {
		t.Errorf("after packing: %v", again.Left)
	}
}

// With a server full of garbage, and an empty one, everything is left alone and the written file is valid.
// The plan sends the server no writes.
func TestPlanGarbage(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	c := connect(t, server.Addr)
	ctx, r := context.Background(), rand.New(rand.NewPCG(9, 9))
	if e := cinch(t, "plan", server.URL()); e.code != 1 || !strings.Contains(e.err, "nothing to measure") {
		t.Errorf("of nothing: %d %s", e.code, e.err)
	}
	pipe := c.Pipeline()
	for range codectest.Amount(500, 500, 2000) {
		pipe.Set(ctx, noise(r, 1+r.IntN(40)), noise(r, r.IntN(300)), 0)
		// Begins like an envelope.
		pipe.HSet(ctx, "h"+noise(r, 9), noise(r, 5), "\xc1\xdd\xdc"+noise(r, r.IntN(90)))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	must(t, nil, c.ConfigResetStat(ctx).Err())
	dir := t.TempDir()
	file, page := filepath.Join(dir, "cinch.yaml"), filepath.Join(dir, "report.html")
	p := report(t, server.URL(), "--write", file, "--html", page)
	for _, g := range p.Groups {
		if g.Choice >= 0 {
			t.Errorf("%q gets %s", g.Pattern, g.Chosen().Name)
		}
	}
	if e := cinch(t, "config", "check", file); e.code != 0 {
		t.Errorf("config check: %s%s", e.out, e.err)
	}
	if info, err := os.Stat(page); err != nil || info.Size() < 1000 || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	for _, line := range strings.Split(c.Info(ctx, "commandstats").Val(), "\n") {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		for _, bad := range []string{"set", "hset", "hdel", "del", "eval", "evalsha", "function", "restore", "expire", "persist", "script", "fcall"} {
			if command, _, _ := strings.Cut(name, "|"); command == bad {
				t.Errorf("a plan sent %s", name)
			}
		}
	}
}

func off(a, b int64) float64 { return math.Abs(float64(a-b)) / float64(max(b, 1)) }

// A million keys are planned in bounded memory, with little load on the server.
func TestPlanMillionKeys(t *testing.T) {
	t.Parallel()
	if os.Getenv("CINCH_PLAN_KEYS") == "" {
		t.Skip("a minute long: run it with CINCH_PLAN_KEYS=1000000")
	}
	var keys int
	if _, err := fmt.Sscan(os.Getenv("CINCH_PLAN_KEYS"), &keys); err != nil {
		t.Fatal(err)
	}
	server := testenv.Redis(t)
	c := connect(t, server.Addr)
	ctx, r := context.Background(), rand.New(rand.NewPCG(1, 2))
	pipe := c.Pipeline()
	for i := range keys {
		pipe.Set(ctx, fmt.Sprintf("%s:%d:doc", []string{"order", "cart", "session", "quote"}[i%4], i), document(r), 0)
		if pipe.Len() == 1000 || i == keys-1 {
			if _, err := pipe.Exec(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	cpu := func() (seconds float64) {
		for _, line := range strings.Split(c.Info(ctx, "cpu").Val(), "\r\n") {
			name, value, _ := strings.Cut(line, ":")
			if name == "used_cpu_user" || name == "used_cpu_sys" {
				var v float64
				_, _ = fmt.Sscan(value, &v)
				seconds += v
			}
		}
		return seconds
	}
	before := cpu()
	e := cinch(t, "plan", "--json", server.URL())
	var p plan.Report
	if err := json.Unmarshal([]byte(e.out), &p); err != nil || e.code != 0 {
		t.Fatal(e.code, err, e.err)
	}
	used := cpu() - before
	t.Logf("%d keys in %.1f s, %d MiB at most, %.2f s of the server (%.1f%%), %d values read; progress:\n%s",
		p.LookedAt.Names, float64(p.LookedAt.Took), e.rss>>20, used, 100*used/float64(p.LookedAt.Took), p.LookedAt.Values, e.err)
	if !p.LookedAt.Whole || p.LookedAt.Names != int64(keys) || p.LookedAt.Took > 60 {
		t.Errorf("looked at %+v", p.LookedAt)
	}
	if e.rss > 256<<20 {
		t.Errorf("%d MiB of memory", e.rss>>20)
	}
	if used > 0.05*float64(p.LookedAt.Took) {
		t.Errorf("%.2f s of the server in %.1f s", used, float64(p.LookedAt.Took))
	}
}

// A server that is unsuitable as a gateway's upstream is still planned, with a note.
func TestWrongUpstreams(t *testing.T) {
	t.Parallel()
	primary := testenv.Redis(t)
	fill(t, primary.Addr)
	host, port, _ := strings.Cut(primary.Addr, ":")
	replica := testenv.Redis(t, "--replicaof", host, port, "--repl-diskless-sync-delay", "0")
	c := connect(t, replica.Addr)
	testenv.Eventually(t, "the replica has what the primary has", func() bool { return c.DBSize(context.Background()).Val() == 500 })
	nodes := testenv.Cluster(t, 3, 0)
	fill(t, nodes[0].Addr)
	for addr, want := range map[string]string{primary.Addr: "", replica.Addr: "replica", nodes[1].Addr: "redis+cluster://"} {
		r := report(t, "redis://"+addr, "--share", "90%", "--candidates", "lz4", "--dictionaries", "none", "--max-time", "30s")
		if got := strings.Join(r.Notes, ""); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("notes %q, want %q in them", got, want)
		}
		if n := r.Groups[0].Values; n != 500 {
			t.Errorf("%s: %v values", want, n)
		}
	}
}

// fill stores 500 documents; in a cluster on the nodes that own their slots.
func fill(t testing.TB, addr string) {
	t.Helper()
	c := goredis.NewUniversalClient(&goredis.UniversalOptions{Addrs: []string{addr}, IsClusterMode: connect(t, addr).ClusterInfo(context.Background()).Err() == nil})
	defer c.Close()
	for i := range 500 {
		if err := c.Set(context.Background(), fmt.Sprintf("doc:%d", i), strings.Repeat(fmt.Sprintf(`{"menu":%d},`, i), 20), 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
}
