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
	"slices"
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

// A part of a long file represents all of it, within the printed interval.
func TestStretches(t *testing.T) {
	dir, r := t.TempDir(), rand.New(rand.NewPCG(1, 1))
	var lines strings.Builder
	n := 0
	for lines.Len() < 12<<20 {
		lines.WriteString(order(r) + "\n")
		n++
	}
	file := write(t, dir, "orders.jsonl", []byte(lines.String()))
	o := options(t)
	o.Candidates = o.Candidates[:1]
	rep := planFiles(t, o, FileOptions{MaxBytes: 4 << 20}, file)
	if g := rep.Groups[0]; rep.LookedAt.Bytes > 4<<20 || math.Abs(g.Values-float64(n)) > 0.01*float64(n) || rep.LookedAt.Whole {
		t.Errorf("%v of %d values, %+v", g.Values, n, rep.LookedAt)
	}
}

func TestSplitter(t *testing.T) {
	for in, want := range map[string][]string{
		`[{"a":1},{"a":[2,{"b":"]}"}]} , 3, "x,\"y"]`: {`{"a":1}`, `{"a":[2,{"b":"]}"}]}`, "3", `"x,\"y"`},
		`{"a":1}{"b":2} {"c":3}`:                      {`{"a":1}`, `{"b":2}`, `{"c":3}`},
		"{\n \"a\": 1\n}":                             {"{\n \"a\": 1\n}"},
		`[]`:                                          nil,
		`[{"a":`:                                      nil,
		`]}{"a":1}`:                                   {"}", `{"a":1}`},
		`["` + strings.Repeat("x", 200) + `",1]`:      {"1"},
	} {
		var got []string
		long := 0
		s := splitter{most: 100, emit: func(doc []byte) { got = append(got, string(doc)) }, long: func() { long++ }}
		s.write([]byte(in))
		s.end()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func FuzzDocuments(f *testing.F) {
	f.Add([]byte(`[{"a":1},{"b":"x"}]`), ".json")
	f.Add([]byte("{\"a\":1}\n\n{\"a\":2}"), ".jsonl")
	f.Add([]byte("a,b\n1,\"x\n"), ".csv")
	f.Fuzz(func(t *testing.T, content []byte, ext string) {
		if !slices.Contains([]string{".json", ".jsonl", ".csv", ".bin"}, ext) || len(content) == 0 {
			return
		}
		file := write(t, t.TempDir(), "f"+ext, content)
		c := NewCollector(CollectOptions{SampleBytes: 1 << 10})
		if _, err := Files(context.Background(), c, []string{file}, FileOptions{MaxValue: 64}); err != nil {
			t.Error(err)
		}
		for _, found := range c.found() {
			for _, v := range found.sample.values {
				if len(v) > 64 && found.kind == kindDocument {
					t.Errorf("a document of %d bytes", len(v))
				}
			}
		}
	})
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

// The objective and the limits decide.
func TestChoose(t *testing.T) {
	dir, r := t.TempDir(), rand.New(rand.NewPCG(1, 1))
	var lines strings.Builder
	for range codectest.Amount(40, 40, 300) {
		var items []string
		for range 150 {
			items = append(items, order(r))
		}
		lines.WriteString("[" + strings.Join(items, ",") + "]\n")
	}
	file := write(t, dir, "big.jsonl", []byte(lines.String()))
	fast, _ := ParseLink("10gbit,0ms")
	slow, _ := ParseLink("10mbit,1ms")
	with := func(change func(*Options)) *GroupPlan {
		o := options(t)
		o.NoDictionaries = true
		change(&o)
		return planFiles(t, o, FileOptions{}, file).Groups[0]
	}
	least := with(func(o *Options) { o.Minimize = MinBytes })
	for _, o := range least.Options {
		// Half a percent of the plain bytes is given up for less CPU, and CPU is measured.
		if !o.Comparison && o.After < least.After()-least.Now/200 {
			t.Errorf("%s takes %d, and %s was chosen with %d", o.Name, o.After, least.Chosen().Name, least.After())
		}
	}
	if g := with(func(o *Options) { o.Minimize, o.Links = MinLatency, []Link{slow} }); g.Chosen() == nil || g.Chosen().Latency[0].ReadMicros >= 0 {
		t.Errorf("on a slow link: %s", g.Why)
	}
	if g := with(func(o *Options) { o.MaxCPU = time.Nanosecond }); g.Choice >= 0 || !strings.Contains(g.Why, "CPU") {
		t.Errorf("without any CPU: %d %s", g.Choice, g.Why)
	}
	if g := with(func(o *Options) { o.MaxLatency, o.Links = time.Microsecond, []Link{fast} }); g.Choice >= 0 || !strings.Contains(g.Why, "adds more than") {
		t.Errorf("on a fast link: %d %s", g.Choice, g.Why)
	}
	if g := with(func(o *Options) { o.Minimize, o.Rates = MinCost, Rates{1e9, 1e9} }); g.Choice >= 0 {
		t.Errorf("at a price of CPU far above that of bytes: %s", g.Chosen().Name)
	}
	front := 0
	for _, o := range least.Options {
		if o.Front {
			front++
		}
	}
	if front == 0 || front == len(least.Options) {
		t.Errorf("%d of %d on the front", front, len(least.Options))
	}
}

func TestMessages(t *testing.T) {
	const answer = `[{"gateway":"ingest","messages":[
		{"method":"/cortex.Ingester/Push","direction":"request","messages":3600,"bytes":360000000,"sizes":[{"up_to_bytes":131072,"messages":3600}],
		 "compressed_messages":7,"sample_messages":50,"estimates":[{"setting":"s2","ratio":5},{"setting":"zstd-3","ratio":9}]},
		{"method":"/cortex.Ingester/Push","direction":"reply","messages":3600,"bytes":7200,"sizes":[],"sample_messages":50,"estimates":[{"setting":"s2","ratio":1}]}]}]`
	o := options(t)
	o.Layout = price.Layout{Zones: 3}
	r, err := Messages(strings.NewReader(answer), 3600, o)
	if err != nil {
		t.Fatal(err)
	}
	if g := r.Groups[0]; g.Chosen() == nil || g.Chosen().Name != "zstd-3" || g.After() != 40000000 {
		t.Errorf("%+v", g)
	}
	if r.Groups[1].Choice >= 0 || r.Left["messages that came compressed"] != 7 {
		t.Errorf("%+v %v", r.Groups[1], r.Left)
	}
	want := o.Prices.Traffic(100000 * 2 / 3.0)
	if math.Abs(r.BillNow.Traffic-want) > 0.001*want || math.Abs(r.BillAfter.Traffic-want/9) > 0.01*want {
		t.Errorf("%v -> %v, want %v", r.BillNow, r.BillAfter, want)
	}
	if text, _, err := r.Config(WriteOptions{Listen: "127.0.0.1:0", Upstream: "grpc://localhost:1", Base: "x"}); err != nil || !strings.Contains(string(text), "service: \"cortex.Ingester\"") {
		t.Errorf("%v\n%s", err, text)
	}
	for _, bad := range []string{"", "[]", "{}", "null", `[{"messages":[{"method":"x"}]}]`, "<html>"} {
		if _, err := Messages(strings.NewReader(bad), 1, o); !errors.Is(err, ErrNoMessages) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Measurements of a MongoDB gateway become rules for one; codecs that the protocol lacks are not recommended;
// and two protocols are not mixed.
func TestMessagesOfMongo(t *testing.T) {
	const find = `{"method":"shop.orders find","direction":"reply","messages":100,"bytes":3500000,"sample_messages":50,"estimates":[{"setting":"s2","ratio":9},{"setting":"zstd-3","ratio":4}]}`
	const push = `{"method":"/a.B/Push","direction":"request","messages":10,"bytes":1000,"sample_messages":9,"estimates":[{"setting":"s2","ratio":2}]}`
	w := WriteOptions{Listen: "127.0.0.1:0", Upstream: "mongodb://localhost", Base: "x"}
	r, err := Messages(strings.NewReader(`[{"gateway":"db","messages":[`+find+`]}]`), 60, across(t))
	if err != nil {
		t.Fatal(err)
	}
	if o := r.Groups[0].Chosen(); o == nil || o.Name != "zstd-3" || r.Protocol != config.Mongo {
		t.Errorf("%s: %+v", r.Protocol, r.Groups[0])
	}
	text, _, err := r.Config(w)
	if err != nil || !strings.Contains(string(text), `namespace: "shop.orders"`) || !strings.Contains(string(text), `command: ["find"]`) || !strings.Contains(string(text), "direction: [reply]") {
		t.Errorf("%v\n%s", err, text)
	}
	paired := across(t)
	paired.Pair = true
	if r, err = Messages(strings.NewReader(`[{"gateway":"db","messages":[`+strings.Replace(find, `{"setting":"s2"`, `{"setting":"pair zstd-3","ratio":20},{"setting":"s2"`, 1)+`]}]`), 60, paired); err != nil {
		t.Fatal(err)
	}
	text, files, err := r.Config(w)
	if o := r.Groups[0].Chosen(); err != nil || o == nil || o.Name != "pair zstd-3" || len(files) > 0 || strings.Contains(string(text), "dictionar") || !strings.Contains(string(text), "'peers: true'") {
		t.Errorf("%v: %+v\n%s", err, r.Groups[0], text)
	}
	if r, err = Messages(strings.NewReader(`[{"gateway":"db","messages":[`+find+`]},{"gateway":"x","messages":[`+push+`]}]`), 60, across(t)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Config(w); !errors.Is(err, ErrMixed) {
		t.Errorf("%v", err)
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

// A file that ends within a value is reported.
func TestCutOffFile(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]float64{`[{"a":1},{"a":`: 1, `[{"a":1},{"a":"`: 1, `[{"a":1},{"a":2}`: 0, `{"a":1} `: 0} {
		r := planFiles(t, options(t), FileOptions{}, write(t, dir, "cut.json", []byte(text)))
		if got := r.Left["cut off by the end of the file"]; got != want {
			t.Errorf("%.30s: %v", text, r.Left)
		}
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
