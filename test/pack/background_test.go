package pack

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/test/testenv"
)

// packing is a `cinch serve` that packs its upstream in the background.
type packing struct {
	cmd    *exec.Cmd
	out    bytes.Buffer // read after the end
	file   string
	admin  string
	listen string
}

// serving starts a gateway; pack and more are YAML.
func serving(t *testing.T, upstream, pack, more string) *packing {
	t.Helper()
	p := &packing{
		file:   filepath.Join(t.TempDir(), "cinch.yaml"),
		admin:  fmt.Sprint("127.0.0.1:", testenv.FreePort(t)),
		listen: fmt.Sprint("127.0.0.1:", testenv.FreePort(t)),
	}
	p.configure(t, upstream, pack, more)
	p.start(t)
	return p
}

func (p *packing) configure(t *testing.T, upstream, pack, more string) {
	t.Helper()
	must(t, os.WriteFile(p.file, fmt.Appendf(nil, "admin: {listen: %q}\ngateways:\n  - {name: g, protocol: redis, listen: %q, upstream: %q, pack: %s, %s}\n",
		p.admin, p.listen, upstream, pack, more), 0o600))
}

func (p *packing) start(t *testing.T) {
	t.Helper()
	p.cmd = exec.Command(testenv.Cinch(t), "serve", "--config", p.file)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	must(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		if t.Failed() {
			t.Logf("cinch serve:\n%s", p.out.String())
		}
	})
	testenv.Eventually(t, "the gateway answers", func() bool {
		r, err := http.Get("http://" + p.admin + "/healthz")
		if err == nil {
			r.Body.Close()
		}
		return err == nil
	})
}

// metric is a sample of /metrics, by its name and labels but the gateway's.
func (p *packing) metric(t *testing.T, name string) float64 {
	t.Helper()
	r, err := http.Get("http://" + p.admin + "/metrics")
	must(t, err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	must(t, err)
	_, rest, ok := strings.Cut(string(text), "\n"+name)
	if !ok {
		t.Fatalf("no metric %s", name)
	}
	number, _, _ := strings.Cut(rest, "\n")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	must(t, err)
	return v
}

const passesDone = `cinch_pack_passes_total{gateway="g",result="done"}`

func packMetric(name string) string { return "cinch_pack_" + name + `{gateway="g"}` }

const someRules = "rules: [{key: 'string:*', setting: zstd-3}, {key: 'hash:*', setting: lz4, min_size: 100}]"

// TestBackground lets two gateways pack one store: between them it is done once.
func TestBackground(t *testing.T) {
	server := testenv.Redis(t)
	c := connect(t, server.Addr)
	fill(t, c, 3000, 300, 600)
	before := contents(t, c, newSealer(nil))
	const pack = "{background: true, every: 1h, keys_per_second: 0, bytes_per_second: 0}"
	both := []*packing{serving(t, server.URL(), pack, someRules), serving(t, server.URL(), pack, someRules)}
	sum := func(name string) float64 { return both[0].metric(t, name) + both[1].metric(t, name) }
	testenv.Eventually(t, "a pass ends", func() bool { return sum(passesDone) > 0 })
	time.Sleep(3 * time.Second) // in which the other would begin one, if it were to
	if n := sum(passesDone); n != 1 {
		t.Errorf("%v passes", n)
	}
	if n := sum(packMetric("keys_total")); n < 3300 || n > 3301 { // the lease is a key too
		t.Errorf("%v keys looked at, by both", n)
	}
	if n := sum(packMetric("values_total")); n != 3600 {
		t.Errorf("%v values packed, want 3000 strings and 600 fields", n)
	}
	if b, a := sum(packMetric("before_bytes_total")), sum(packMetric("after_bytes_total")); a <= 0 || a > b/2 {
		t.Errorf("from %v to %v bytes", b, a)
	}
	if n := sealed(before, c); n != 3000 {
		t.Errorf("%d of 3000 strings are sealed", n)
	}
	after := contents(t, c, newSealer(nil))
	for key := range after { // whose turn it was
		if strings.HasPrefix(key, "cinch:pack:") {
			delete(after, key)
		}
	}
	sameContents(t, "packed", after, before)
	if got := connect(t, both[1].listen).Get(t.Context(), "string:7").Val(); got != document(7, 600) {
		t.Errorf("through a gateway: %.50q", got)
	}

	// Other rules are another task, so that it begins without waiting for an hour.
	must(t, c.Set(t.Context(), "late:1", document(1, 600), 0).Err())
	both[0].configure(t, server.URL(), pack, "rules: [{setting: zstd-3}]")
	must(t, both[0].cmd.Process.Signal(syscall.SIGHUP))
	testenv.Eventually(t, "the new rules are carried out", func() bool {
		v, _ := c.Get(t.Context(), "late:1").Bytes()
		return cinch.IsSealed(v)
	})
	both[0].configure(t, server.URL(), pack, "enabled: false, rules: [{setting: zstd-3}]")
	must(t, both[0].cmd.Process.Signal(syscall.SIGHUP))
	testenv.Eventually(t, "it is off with the gateway", func() bool { return both[0].metric(t, packMetric("wanted")) == 0 })
}

// TestBackgroundResumes ends a gateway in the middle of a pass, with a state file.
func TestBackgroundResumes(t *testing.T) {
	server := testenv.Redis(t)
	c := connect(t, server.Addr)
	fill(t, c, 6000, 0, 300)
	before := contents(t, c, newSealer(nil))
	g := serving(t, server.URL(), "{background: true, state: position, keys_per_second: 1000}", someRules)
	testenv.Eventually(t, "it is under way", func() bool { return sealed(before, c) > 0 })
	must(t, g.cmd.Process.Signal(syscall.SIGTERM))
	if err := g.cmd.Wait(); err != nil {
		t.Fatalf("the drain: %v\n%s", err, g.out.String())
	}
	done := sealed(before, c)
	if done == 0 || done == 6000 {
		t.Fatalf("%d sealed when it ended", done)
	}
	if keys := c.Keys(t.Context(), "cinch:pack:*").Val(); len(keys) != 0 {
		t.Errorf("the turn was not given back: %v", keys)
	}
	state, err := os.ReadFile(filepath.Join(filepath.Dir(g.file), "position"))
	must(t, err)
	if !bytes.Contains(state, []byte(`"done": false`)) {
		t.Errorf("state: %s", state)
	}
	g.configure(t, server.URL(), "{background: true, state: position, keys_per_second: 0}", someRules)
	g.start(t)
	testenv.Eventually(t, "the pass ends", func() bool { return g.metric(t, passesDone) == 1 })
	if n := g.metric(t, packMetric("keys_total")); n > 6001-float64(done) {
		t.Errorf("it began anew: %v keys with %d sealed before", n, done)
	}
	if n := sealed(before, c); n != 6000 {
		t.Errorf("%d of 6000 sealed", n)
	}
}

// TestBackgroundAdoptsFirst: what is sealed without the dictionary that is there already
// would stay so.
func TestBackgroundAdoptsFirst(t *testing.T) {
	server := testenv.Redis(t)
	c := connect(t, server.Addr)
	fill(t, c, 3000, 0, 300)
	d := testDict(t)
	announce(t, c, d, policy.Rule{Key: "string:*", Setting: codec.Setting{Codec: codec.Zstd, Level: 3}, Auto: true})
	g := serving(t, server.URL(), "{background: true, every: 1s, keys_per_second: 0}", "rules: [{key: 'string:*', setting: zstd-3, dictionary: auto}]")
	testenv.Eventually(t, "a pass ends", func() bool { return g.metric(t, passesDone) > 0 })
	testenv.Eventually(t, "all are sealed", func() bool { return g.metric(t, packMetric("values_total")) >= 3000 })
	expect(t, 0, []string{"verify", server.URL()}, fmt.Sprintf("opens: zstd@%08x                3000", d.Number()))
}

// TestBackgroundEstimates: nothing is changed, and the metrics say what could be.
func TestBackgroundEstimates(t *testing.T) {
	server := testenv.Redis(t)
	c := connect(t, server.Addr)
	fill(t, c, 500, 0, 600)
	before := contents(t, c, newSealer(nil))
	g := serving(t, server.URL(), "{background: true, mode: estimate}", someRules)
	testenv.Eventually(t, "a pass ends", func() bool { return g.metric(t, passesDone) == 1 })
	if n := sealed(before, c); n != 0 {
		t.Errorf("%d sealed", n)
	}
	if n := g.metric(t, packMetric("values_total")); n != 500 {
		t.Errorf("%v would be", n)
	}
}

// TestBackgroundTrouble: a store that is away, comes back, and lacks a dictionary.
func TestBackgroundTrouble(t *testing.T) {
	server := testenv.Redis(t, "--appendonly", "yes")
	c := connect(t, server.Addr)
	fill(t, c, 300, 0, 600)
	server.Kill()
	d := testDict(t)
	g := serving(t, server.URL(), "{background: true, every: 1s}", fmt.Sprintf("rules: [{setting: zstd-3@%08x}]", d.Number()))
	testenv.Eventually(t, "it has noticed", func() bool { return g.metric(t, packMetric("wanted")) == 1 })
	must(t, server.Restart())
	c = connect(t, server.Addr)
	time.Sleep(2 * time.Second)
	if v := c.Get(t.Context(), "string:1").Val(); cinch.IsSealed([]byte(v)) {
		t.Error("sealed with a dictionary that is not there")
	}
	must(t, storeredis.NewDicts(storeredis.DictsOptions{Client: c}).Publish(t.Context(), d))
	testenv.Eventually(t, "the dictionary is used", func() bool {
		v, _ := c.Get(t.Context(), "string:1").Bytes()
		h, err := cinch.ParseHeader(v)
		return err == nil && h.Dict == d.Number()
	})
}
