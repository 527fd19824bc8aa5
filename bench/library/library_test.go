package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/bench/corpora"
	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/client"
	"github.com/cinch-layer/cinch/test/testenv"
)

// The test's program also runs as the clients, like the benchmark's.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == clientRole {
		exit(runClient(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// The whole benchmark runs with few generated records. The test checks bytes, not costs.
func TestBenchmark(t *testing.T) {
	testenv.Full(t)
	testenv.Program(t, "redis-server")
	o := small(t)
	o.ways = inGo()
	missing := hasClients(o.python)
	if missing == nil {
		o.ways = ways
	}
	r, err := o.measure([]*data{orders()})
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range r.Rows {
		base := slices.IndexFunc(o.ways, func(b way) bool { return b.name == o.ways[i].base })
		checkRow(t, o.ways[i], w, r.Rows[base].Stored.Lengths)
	}
	if n := len(inGo()); len(r.Latency.Ways) != n || r.Latency.Ways[n-1].Gets != 50 || r.Latency.Ways[n-1].P99 <= 0 {
		t.Errorf("latency: %+v", r.Latency)
	}
	checkPage(t, r)
	if missing != nil {
		t.Skipf("NOT MEASURED: clients for Python; the others passed. %v", missing)
	}
}

// The part npm runs with few generated records: Cinch's values are smaller than GLIDE's, and the table fits
// its place on the page.
func TestNPM(t *testing.T) {
	testenv.Full(t)
	testenv.Program(t, "redis-server")
	o := small(t)
	if err := hasClients(o.python); err != nil {
		t.Skip("NOT MEASURED:", err)
	}
	d := orders()
	sides := corpora.Sides{Learn: d.learn, Measure: slices.Concat(d.measure, d.measure)}
	r, err := o.measureNPM(map[string]corpora.Sides{sameOwners: sides, otherOwners: sides})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 8 {
		t.Fatalf("%d rows", len(r.Rows))
	}
	for _, w := range r.Rows {
		glide := r.glide(w.Owners)
		isCinch := strings.HasPrefix(w.Way, "Cinch")
		if smaller := w.Stored.Lengths < glide.Stored.Lengths; smaller != isCinch || (w.Once > 0) != isCinch {
			t.Errorf("%+v, GLIDE: %+v", w, glide)
		}
		if w.Stored.Classes < w.Stored.Lengths || w.Stored.Keys < w.Stored.Classes || w.Stored.Used < w.Stored.Classes {
			t.Errorf("%+v", w)
		}
	}
	checkPlace(t, r, "| the same | 1000 | 200 | plain |")
}

func small(t *testing.T) *options {
	o := defaults()
	o.work, o.cinch, o.python = t.TempDir(), testenv.Cinch(t), client.Interpreter()
	o.rounds, o.turn, o.timing = 2, 50, 50
	o.training, o.fill = "{min_samples: 300, interval: 24h, cpu: 99%}", 1<<20
	return o
}

func inGo() (some []way) {
	for _, w := range ways {
		if !w.python {
			some = append(some, w)
		}
	}
	return some
}

func checkRow(t *testing.T, of way, w row, plain int64) {
	if less := w.Stored.Lengths < plain; less != (of.base != of.name) {
		t.Errorf("%s: %d bytes are stored, without compression %d", w.Way, w.Stored.Lengths, plain)
	}
	if value := float64(w.Stored.Lengths) / 100; min(w.WireSet, w.WireGet) < value || max(w.WireSet, w.WireGet) > value+100 {
		t.Errorf("%s: %.0f bytes a value, on the wire %.0f and %.0f", w.Way, value, w.WireSet, w.WireGet)
	}
	if w.Set.Client <= 0 || w.Set.Server <= 0 || w.Get.Sum <= w.Get.Gateway || (w.Set.Gateway > 0) != of.gateway {
		t.Errorf("%s: %+v, %+v", w.Way, w.Set, w.Get)
	}
	if w.Stored.Used <= 0 || w.Stored.Keys < w.Stored.Lengths || (w.Once > 0) != of.sealed {
		t.Errorf("%s: %+v and %d", w.Way, w.Stored, w.Once)
	}
}

// checkPage checks that the tables fit their places on the page of results.
func checkPage(t *testing.T, r *result) {
	checkPlace(t, r, "| orders | go-redis, gateway |", "| go-redis, cinchredis | 50 |", rig.Machine())
}

func checkPlace(t *testing.T, r page, lines ...string) {
	path := filepath.Join(t.TempDir(), "library.md")
	text, err := os.ReadFile("../results/library.md")
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err == nil {
		err = r.write(path)
	}
	if err == nil {
		text, err = os.ReadFile(path)
	}
	for _, line := range lines {
		if err != nil || !strings.Contains(string(text), line) {
			t.Errorf("the page does not have %q: %v", line, err)
		}
	}
}

func orders() *data {
	random := rand.New(rand.NewPCG(1, 2))
	list := func(n int) (values [][]byte) {
		for range n {
			values = append(values, fmt.Appendf(nil, `{"order_id":"%08x","customer":{"id":%d,"tier":"gold","country":"%c%c"},"status":"delivered","items":[{"sku":"SKU-%05d","quantity":%d}]}`,
				random.Uint32(), random.IntN(1e6), 'A'+rune(random.IntN(26)), 'A'+rune(random.IntN(26)), random.IntN(1e5), random.IntN(9)))
		}
		return values
	}
	d := newData("orders", "made up", corpora.Sides{Learn: list(1000), Measure: list(100)}, 100)
	d.large = d.measure[:5]
	return d
}
