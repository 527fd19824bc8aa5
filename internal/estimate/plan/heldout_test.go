package plan

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/test/testenv"
)

var (
	heldValues = flag.Int("held.values", 0, "the plan on data sets of so many values a kind, against all settings; 0: a short form")
	heldCPU    = flag.Bool("held.cpu", false, "with CPU that is measured, not modelled; reports only, since the best of many measurements is partly luck")
	heldTo     = flag.String("held.results", "", "write what came out into this file")
)

// A dataSet describes the content of a user's server: the kind of data for each pattern of keys, and the rates; zero
// rates are unknown.
type dataSet struct {
	name  string
	kinds map[string]string // name with %d -> kind
	rates Rates
	extra int // number of additional prefixes, of all kinds in turn
}

var dataSets = []dataSet{
	{name: "shop", kinds: map[string]string{"order:%d": "order", "session:%d": "session", "menu:%d": "menu", "img:%d": "image", "hits:%d": "counter"}},
	{name: "shop, read often", kinds: map[string]string{"order:%d": "order", "session:%d": "session", "menu:%d": "menu", "img:%d": "image", "hits:%d": "counter"}, rates: Rates{20000, 500}},
	{name: "pages", kinds: map[string]string{"page:%d": "html", "fragment:%d": "html", "csrf:%d": "uuids"}},
	{name: "pages, read often", kinds: map[string]string{"page:%d": "html"}, rates: Rates{5000, 5}},
	{name: "django", kinds: map[string]string{":1:django.contrib.sessions.cache%d": "pickled", ":1:views.decorators.cache.%d": "html"}},
	{name: "random", kinds: map[string]string{"blob:%d": "random", "enc:%d": "uuids"}},
	{name: "compressed already", kinds: map[string]string{"z:%d": "compressed", "thumb:%d": "image"}},
	{name: "tokens", kinds: map[string]string{"jwt:%d": "token", "refresh:%d": "uuids", "user:%d": "tiny-json"}},
	{name: "tiny", kinds: map[string]string{"flag:%d": "tiny-json", "n:%d": "counter"}},
	{name: "tiny, written often", kinds: map[string]string{"flag:%d": "tiny-json", "n:%d": "counter"}, rates: Rates{1000, 50000}},
	{name: "documents", kinds: map[string]string{"doc:%d:v1": "document", "doc:%d:meta": "tiny-json"}},
	{name: "documents, written often", kinds: map[string]string{"doc:%d:v1": "document"}, rates: Rates{100, 20000}},
	{name: "logs", kinds: map[string]string{"log:app:%d": "log", "log:csv:%d": "csv"}},
	{name: "telemetry", kinds: map[string]string{"series:%d": "series", "push:%d": "protobuf", "floats:%d": "floats"}, rates: Rates{100, 3000}},
	{name: "rpc", kinds: map[string]string{"req:%d": "protobuf", "soap:%d": "xml", "mp:%d": "msgpack"}},
	{name: "profiles", kinds: map[string]string{"profile:%d": "msgpack", "bio:%d": "prose", "avatar:%d": "image"}},
	{name: "text", kinds: map[string]string{"article:%d": "prose", "snippet:%d": "log"}},
	{name: "sparse", kinds: map[string]string{"bitmap:%d": "sparse", "embedding:%d": "floats"}},
	{name: "twenty prefixes", kinds: map[string]string{"menu:%d": "menu"}, extra: 20},
	{name: "twenty prefixes, read often", kinds: map[string]string{"page:%d": "html"}, extra: 20, rates: Rates{50000, 100}},
	{name: "mixed depth", kinds: map[string]string{"app:cache:page:%d": "html", "app:cache:api:%d": "document", "app:sess:%d": "session", "app:q:%d": "log", "app:rl:%d": "counter"}},
	{name: "hot documents", kinds: map[string]string{"doc:%d": "document", "tok:%d": "token", "o:%d": "order"}, rates: Rates{200000, 10000}},
}

// held is one kind's values: a half that the plan sees, and one that it doesn't.
type held struct {
	pattern, kind string
	seen, unseen  [][]byte
}

const (
	heldNames = 20000   // number of names that each pattern stands for
	heldBytes = 200_000 // limit for a kind in the short form
	leastHeld = 64      // minimum number of values
)

func (d *dataSet) values() (all []held) {
	of := func(pattern, kind string, part float64) {
		sum := fnv.New64a()
		fmt.Fprint(sum, d.name, pattern)
		r := rand.New(rand.NewPCG(sum.Sum64(), 1))
		h := held{pattern: pattern, kind: kind}
		n, most := 400*part, heldBytes*part
		if *heldValues > 0 {
			n, most = float64(*heldValues)*part, math.Inf(1)
		}
		bytes := 0.0
		for i := 0; float64(i) < max(n, leastHeld) && (bytes < most || float64(i) < leastHeld*max(part, 0.5)); i++ {
			h.seen, h.unseen = append(h.seen, kinds[kind](r)), append(h.unseen, kinds[kind](r))
			bytes += float64(len(h.seen[i]))
		}
		all = append(all, h)
	}
	for pattern, kind := range d.kinds {
		of(pattern, kind, 1)
	}
	var names []string
	for kind := range kinds {
		names = append(names, kind)
	}
	slices.Sort(names)
	for i := range d.extra {
		of(fmt.Sprintf("%s%c:%%d", words[i], 'a'+rune(i%26)), names[i%len(names)], 0.4)
	}
	slices.SortFunc(all, func(a, b held) int { return strings.Compare(a.pattern, b.pattern) })
	return all
}

// modelledCPU returns approximately the codecs' CPU time on a server of 2023.
func modelledCPU(c Candidate, raw, stored int) (compress, open time.Duration) {
	perByte, openByte := 3.0, 1.0 // ns
	call := 300.0
	switch c.Setting.Codec {
	case codec.Zstd:
		level := float64(max(c.Setting.Level, 1))
		perByte, openByte, call = 5*math.Pow(level, 1.15), 2, 1500
	case codec.Zlib:
		perByte, openByte, call = 40, 5, 3000
	case codec.LZ4:
		perByte += float64(c.Setting.Level) * 3
	}
	return time.Duration(call + perByte*float64(raw)), time.Duration(call/2 + openByte*float64(raw))
}

// judge scores settings on values that the plan has not seen, by the plan's own objective.
type judge struct {
	p *planner
	r *Report
}

func newJudge(t *testing.T, d *dataSet, all []held) *judge {
	o := heldOptions(t, d)
	o.setDefaults()
	j := &judge{p: &planner{Options: o}, r: &Report{}}
	n := float64(heldNames * len(all))
	rates := j.p.rates(n)
	j.r.perValue = Rates{rates.Reads / n, rates.Writes / n}
	return j
}

func heldOptions(t *testing.T, d *dataSet) Options {
	o := options(t)
	if z, ok := libzstd.New(); ok {
		o.Engine, o.Train = codec.New(codec.Options{Zstd: z}), libzstd.Train
	}
	o.Source = SourceInfo{Protocol: config.Redis, Medium: price.InMemory, Cost: RedisCost, Never: policy.NeverSeal, DictCost: redis.DictCost}
	o.Rates = d.rates
	if *heldCPU {
		o.CPU = nil
	}
	return o
}

// heldGroup holds a kind's unseen values as a group of the whole server.
type heldGroup struct{ f found }

func (j *judge) group(h held) heldGroup {
	g := newGroup()
	for _, v := range h.unseen {
		cost, _ := RedisCost("string", len(v), len(v))
		g.sizes.add(len(v), cost, 1)
	}
	return heldGroup{found{address{"0", h.pattern, "string"}, g, heldNames / float64(len(h.unseen))}}
}

// score returns the objective for a kind with a setting; raw if c is nil.
func (j *judge) score(t *testing.T, h held, c *Candidate, d *codec.Dict) float64 {
	g := j.p.newGroup(j.group(h).f, j.r)
	if c == nil {
		return j.p.baseline(g)
	}
	rules := &rules{kind: "string", cost: RedisCost, minSize: policy.DefaultMinSize, minGain: policy.DefaultMinGain, never: policy.NeverSeal}
	w := &measurement{sealer: c.sealer(j.p.Engine, trained{values: d}), rules: rules}
	if j.p.CPU != nil {
		w.model = func(raw, stored int) (in, out time.Duration) { return j.p.CPU(*c, raw, stored) }
	}
	m, err := w.measure(t.Context(), subjectsOf(h.unseen), heldNames)
	if err != nil {
		t.Fatalf("%s on %s: %v", c, h.kind, err)
	}
	m.Candidate = *c
	if d != nil {
		m.DictCost = int64(redis.DictCost(d))
	}
	o := j.p.option(g, &m, j.r)
	return j.p.score(g, &o)
}

// exhaustive returns the best score of any setting, with dictionaries of all sizes.
func (j *judge) exhaustive(t *testing.T, h held) (least float64, best string) {
	least, best = j.score(t, h, nil, nil), "raw"
	try := func(c Candidate, d *codec.Dict) {
		if s := j.score(t, h, &c, d); s < least {
			least, best = s, c.String()
			if d != nil {
				best += fmt.Sprintf(" of %d KiB", len(d.Content())>>10)
			}
		}
	}
	levels, others, sizes := []int{1, 3, 6, 9, 12}, []string{"snappy", "s2", "minlz", "lz4", "zlib-6"}, []int{4 << 10, 16 << 10, 64 << 10}
	if *heldValues > 0 {
		sizes = dict.Sizes
		levels, others = []int{1, 2, 3, 4, 5, 6, 7, 9, 11, 12, 15, 19}, append(others, "lz4-9", "zlib-1", "zlib-9")
	}
	for _, text := range others {
		c, err := ParseCandidate(text)
		if err != nil {
			t.Fatal(err)
		}
		try(c, nil)
	}
	var dicts []*codec.Dict
	for _, size := range sizes {
		d, err := dict.Train(h.seen, dict.TrainOptions{Size: size, Level: 3, Algorithm: dict.External, External: j.p.Train})
		if err == nil {
			dicts = append(dicts, d)
		}
	}
	for _, level := range levels {
		c := Candidate{Setting: codec.Setting{Codec: codec.Zstd, Level: level}}
		try(c, nil)
		c.Dictionary = true
		for _, d := range dicts {
			try(c, d)
		}
	}
	return least, best
}

// policyOf returns the policy of a written configuration, with its dictionaries by name.
func policyOf(t *testing.T, text []byte, files []DictionaryFile) (*policy.Policy, map[string]*codec.Dict) {
	t.Helper()
	cfg, err := config.Parse("x.yaml", text, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	dicts := map[string]*codec.Dict{}
	for _, f := range files {
		dicts[f.Name] = f.Dict
	}
	p, err := cfg.Gateways[0].Policy(config.Numbers(dicts))
	if err != nil {
		t.Fatal(err)
	}
	return p, dicts
}

// configured returns the scores of the plan's configuration, with its rules and dictionaries.
func (j *judge) configured(t *testing.T, rep *Report, all []held) (scores []float64, does []string) {
	text, files, err := rep.Config(WriteOptions{Listen: "127.0.0.1:0", Upstream: "redis://localhost", Base: "x"})
	if err != nil {
		t.Fatal(err)
	}
	pol, dicts := policyOf(t, text, files)
	for _, h := range all {
		rule := pol.Lookup(policy.Address{Space: "0", Key: fmt.Appendf(nil, h.pattern, 77), Type: policy.String, Size: 1000})
		if rule == nil || rule.Raw() {
			scores, does = append(scores, j.score(t, h, nil, nil)), append(does, "raw")
			continue
		}
		c := Candidate{Setting: rule.Setting}
		c.Setting.Dict = 0
		var d *codec.Dict
		for _, x := range dicts {
			if x.Number() == rule.Setting.Dict {
				c.Dictionary, d = true, x
			}
		}
		scores, does = append(scores, j.score(t, h, &c, d)), append(does, c.String())
	}
	return scores, does
}

func (d *dataSet) plan(t *testing.T, all []held) *Report {
	c := NewCollector(CollectOptions{Cost: RedisCost})
	type named struct{ name, value []byte }
	var names []named
	for _, h := range all {
		for i, v := range h.seen {
			names = append(names, named{fmt.Appendf(nil, h.pattern, i), v})
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	r.Shuffle(len(names), func(i, k int) { names[i], names[k] = names[k], names[i] })
	for _, n := range names {
		if ticket := c.Offer("0", n.name); ticket.Read {
			c.Value("0", n.name, "string", ticket, n.value)
		}
	}
	for _, h := range all { // each value stands for many
		c.trees["0"].find(fmt.Appendf(nil, h.pattern, 0)).seen = heldNames
	}
	rep, err := Make(t.Context(), c, heldOptions(t, d))
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// On data that it has not seen, the plan's configuration is within 5 % of the best score of any setting, by
// its own objective. All data sets run with CINCH_FULL=1, or for a file of results.
func TestPlanIsNearTheBest(t *testing.T) {
	if _, ok := libzstd.New(); !ok || testenv.RaceDetector {
		t.Skip("too slow")
	}
	results := "data_set,kinds,plan,best,worse_percent\n"
	few := []string{"tiny", "documents, written often"}
	some := append(few, "pages, read often")
	for _, d := range dataSets {
		if names := codectest.Amount(few, some, nil); names != nil && *heldTo == "" && !slices.Contains(names, d.name) {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			all := d.values()
			j := newJudge(t, &d, all)
			rep := d.plan(t, all)
			got, does := j.configured(t, rep, all)
			var sum, best float64
			for i, h := range all {
				least, what := j.exhaustive(t, h)
				sum, best = sum+got[i], best+least
				if got[i] > 1.05*least {
					t.Logf("%-22s %-10s %-14s %.4g instead of %.4g with %s (%+.1f%%)", h.pattern, h.kind, does[i], got[i], least, what, 100*(got[i]/least-1))
				}
			}
			results += fmt.Sprintf("%q,%d,%.5g,%.5g,%.2f\n", d.name, len(all), sum, best, 100*(sum/best-1))
			if *heldTo != "" { // after each set: the long form takes an hour
				if err := os.WriteFile(*heldTo, []byte(results), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("%.5g, at best %.5g: %+.2f%%", sum, best, 100*(sum/best-1))
			if sum > 1.05*best && !*heldCPU {
				t.Errorf("the plan's choices are %.1f%% worse than the best", 100*(sum/best-1))
			}
		})
	}
}

// A dictionary that saves less than gateways ask for is no candidate.
func TestDictionaryMustSaveEnough(t *testing.T) {
	var lines strings.Builder
	r := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		lines.WriteString(order(r) + "\n")
	}
	file := write(t, t.TempDir(), "orders.jsonl", []byte(lines.String()))
	o := options(t)
	o.Candidates = nil
	for _, text := range []string{"zstd-3", "zstd-3+dict"} {
		c, err := ParseCandidate(text)
		if err != nil {
			t.Fatal(err)
		}
		o.Candidates = append(o.Candidates, c)
	}
	for saving, want := range map[float64]bool{0: true, 0.1: true, 0.95: false} {
		o.DictSaving = saving
		g := group(t, planFiles(t, o, FileOptions{}, file), "orders.jsonl")
		if has := len(g.Options) == 2; has != want || has != (g.Trained != nil) {
			t.Errorf("%v: %d candidates, a dictionary: %v", saving, len(g.Options), g.Trained != nil)
		}
	}
}
