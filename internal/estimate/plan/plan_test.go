package plan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/test/testenv"
)

// defaultPrices are parsed once: some tests make thousands of plans.
var defaultPrices = sync.OnceValues(price.Default)

// options returns options with a CPU model, so that choices don't depend on the machine's load.
func options(t testing.TB) Options {
	t.Helper()
	p, err := defaultPrices()
	if err != nil {
		t.Fatal(err)
	}
	return Options{Engine: codec.New(codec.Options{}), Candidates: DefaultCandidates(), Prices: maps.Clone(p), CPU: modelledCPU}
}

// across returns options for messages that cross zones as by default.
func across(t testing.TB) Options {
	o := options(t)
	o.Layout.Zones = price.DefaultZones
	return o
}

func noise(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func order(r *rand.Rand) string {
	return fmt.Sprintf(`{"id":%d,"customer":%d,"status":"paid","created":"2026-11-%02dT10:00:00Z","total":%d,"currency":"EUR","sku":"SKU-%06d"}`,
		r.IntN(1e9), r.IntN(1e6), 1+r.IntN(28), r.IntN(500), r.IntN(1e6))
}

func write(t testing.TB, dir, name string, content []byte) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func planFiles(t testing.TB, o Options, fo FileOptions, paths ...string) *Report {
	t.Helper()
	c := NewCollector(CollectOptions{})
	var err error
	if o.Source, err = Files(context.Background(), c, paths, fo); err != nil {
		t.Fatal(err)
	}
	r, err := Make(context.Background(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func group(t testing.TB, r *Report, start string) *GroupPlan {
	t.Helper()
	for _, g := range r.Groups {
		if strings.HasPrefix(g.Pattern, start) {
			return g
		}
	}
	t.Fatalf("no group %s in %v", start, r.Groups)
	return nil
}

// Small documents get a dictionary, noise and short columns are left alone; the totals are exact, and the
// result loads as a configuration.
func TestFilesToConfig(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("too slow, and other plans run with the detector")
	}
	dir, r := t.TempDir(), rand.New(rand.NewPCG(1, 1))
	var lines, table strings.Builder
	table.WriteString("id,about\n")
	n := codectest.Amount(1200, 1200, 4000)
	for i := range n {
		lines.WriteString(order(r) + "\n")
		if i < 1000 {
			fmt.Fprintf(&table, "%d,%s\n", i, strings.Repeat(order(r)[:60], 3))
		}
	}
	write(t, dir, "orders.jsonl", []byte(lines.String()))
	write(t, dir, "people.csv", []byte(table.String()))
	for i := range 30 {
		write(t, dir, fmt.Sprintf("img/%d.jpg", i), noise(r, 5000))
	}
	opts := options(t)
	opts.Minimize, opts.CPU = MinBytes, nil // measured
	slow, _ := ParseLink("100mbit,1.5ms")
	opts.Links = []Link{slow}
	rep := planFiles(t, opts, FileOptions{}, dir)
	orders := group(t, rep, "orders.jsonl {id,customer,status…}")
	if orders.Values != float64(n) || orders.Now != int64(lines.Len()-n) || orders.Margin != 0 {
		t.Errorf("%+v", orders)
	}
	if o := orders.Chosen(); o == nil || o.DictionaryBytes == 0 || o.Ratio < 2 || o.CompressMicros <= 0 || o.OpenMicros <= 0 {
		t.Errorf("orders: %+v", o)
	}
	for _, left := range []string{"img/", "people.csv id"} {
		if g := group(t, rep, left); g.Choice >= 0 {
			t.Errorf("%s gets %s", left, g.Chosen().Name)
		}
	}
	for _, g := range rep.Groups {
		for _, o := range g.Options {
			if o.Comparison && g.Choice >= 0 && g.Chosen().Name == o.Name {
				t.Errorf("%s gets %s, which is no codec", g.Pattern, o.Name)
			}
		}
	}
	text, files, err := rep.Config(WriteOptions{Listen: "127.0.0.1:0", Upstream: "redis://u:p@localhost", Base: "x"})
	if err != nil || len(files) == 0 {
		t.Fatalf("%v\n%s", err, text)
	}
	parsed, err := config.Parse("x.yaml", text, nil)
	if err != nil || len(parsed.Gateways[0].Rules) == 0 || len(parsed.Dictionaries) != len(files) {
		t.Errorf("%v\n%s", err, text)
	}
	if auto, none, err := rep.Config(WriteOptions{Listen: "127.0.0.1:0", Upstream: "redis://localhost", Base: "x", Auto: true}); err != nil || len(none) > 0 || !strings.Contains(string(auto), "dictionary: auto") {
		t.Errorf("%v\n%s", err, auto)
	}
	linesFit(t, rep)
	for _, g := range rep.Groups { // on a slow machine
		for i := range g.Options {
			g.Options[i].CompressMicros, g.Options[i].OpenMicros = 123456, 23456
		}
	}
	linesFit(t, rep)
}

// linesFit checks that lines are at most as long as the terminal is wide.
func linesFit(t *testing.T, rep *Report) {
	t.Helper()
	for _, width := range []int{80, 120} {
		var out bytes.Buffer
		if err := rep.Text(&out, TextOptions{Width: width, Details: true}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > width {
				t.Errorf("at %d columns a line has %d: %s", width, n, line)
			}
		}
	}
}

// For any amount of data, samples stay within their limits, and the sums are right.
func TestCollectorIsBounded(t *testing.T) {
	c := NewCollector(CollectOptions{SampleBytes: 1 << 20, GroupBytes: 300 << 10, ReadNames: 500})
	r := rand.New(rand.NewPCG(1, 1))
	read := 0
	for i := range 200000 {
		name := fmt.Appendf(nil, "k%c:%d", 'a'+i%10, i)
		if ticket := c.Offer("0", name); ticket.Read {
			read++
			c.Value("0", name, "string", ticket, make([]byte, 100+r.IntN(100)))
		}
	}
	total, held, values := 0.0, 0, 0.0
	for _, f := range c.found() {
		held += f.sample.bytes
		values += f.sizes.values * f.scale
		total += f.sizes.bytes * f.scale
	}
	if held > 1<<20 || read > 50000 {
		t.Errorf("%d bytes are held, %d values were read", held, read)
	}
	if math.Abs(values-200000) > 1 || math.Abs(total/200000-149.5) > 1.5 {
		t.Errorf("%v values of %v bytes", values, total/values)
	}
}

func TestParse(t *testing.T) {
	if l, err := ParseLink("100mbit,1.5ms"); err != nil || l.BitsPerSecond != 1e8 || l.RTT != 1500*time.Microsecond {
		t.Errorf("%+v %v", l, err)
	}
	for _, text := range []string{"", "100", "mbit", "-1mbit", "0mbit", "1mbit,x", "1mbit,-1ms", "1e99gbit"} {
		if _, err := ParseLink(text); !errors.Is(err, ErrLink) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, c := range DefaultCandidates() {
		if back, err := ParseCandidate(c.String()); err != nil || back != c {
			t.Errorf("%s: %+v %v", c, back, err)
		}
	}
	for _, text := range []string{"", "zstd-99", "lz4+dict", "brotli", "brotli-12", "brotli-05", "zstd-3@01020304"} {
		if _, err := ParseCandidate(text); !errors.Is(err, ErrCandidate) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestNothing(t *testing.T) {
	if _, err := Make(context.Background(), NewCollector(CollectOptions{}), options(t)); !errors.Is(err, ErrEmpty) || errors.Is(err, ErrSealed) {
		t.Error(err)
	}
	c := NewCollector(CollectOptions{})
	c.SkipInSpace("0", "menu:*", "string", sealedAlready, 1)
	if _, err := Make(context.Background(), c, options(t)); !errors.Is(err, ErrSealed) {
		t.Error(err)
	}
	c.SkipInSpace("0", "menu:*", "list", "a list", 1)
	if _, err := Make(context.Background(), c, options(t)); !errors.Is(err, ErrEmpty) || errors.Is(err, ErrSealed) {
		t.Error(err)
	}
}

// The values of one name, such as a large hash, count like those of many names: they are not dropped together
// when the sample has to shrink.
func TestOneNameWithManyValues(t *testing.T) {
	for seed := range uint64(4) {
		c := NewCollector(CollectOptions{GroupBytes: 1 << 20, Seed: seed})
		ticket := c.Offer("0", []byte("profiles"))
		for i := range 50_000 {
			c.Value("0", []byte("profiles"), "hash", ticket, fmt.Appendf(nil, `{"id":%d,"name":"somebody","city":"somewhere"}`, i))
		}
		g := c.found()[0]
		if n := len(g.sample.values); n < 5000 || g.sample.bytes > 1<<20 {
			t.Errorf("seed %d: %d values of %d bytes are left", seed, n, g.sample.bytes)
		}
	}
}

// Of a few values longer than the sample's limit, one stays.
func TestFewLongValues(t *testing.T) {
	for seed := range uint64(20) {
		c := NewCollector(CollectOptions{GroupBytes: 1 << 20, SampleBytes: 2 << 20, Seed: seed})
		for i := range 3 {
			name := fmt.Appendf(nil, "huge:%d", i)
			c.Value("0", name, "string", c.Offer("0", name), make([]byte, 2<<20))
		}
		if n := len(c.found()[0].sample.values); n != 1 {
			t.Errorf("seed %d: %d values are left", seed, n)
		}
	}
}
