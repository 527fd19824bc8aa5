package plan

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/dictionary"
)

type planner struct {
	Options
	foreign  bool // client libraries may have compressed values
	memories map[memoryKey]Memory
	room     []byte  // buffer for compressed values while measuring
	now      float64 // bytes of all groups
}

func (p *planner) progress(done float64, what string) {
	if p.Progress != nil {
		p.Progress(done, "measuring "+what)
	}
}

// rates returns the rates that were given, or else observed, or else assumed.
func (p *planner) rates(values float64) Rates {
	r := p.Rates
	if r == (Rates{}) {
		r = p.Source.Rates
	}
	if r == (Rates{}) && p.Source.Medium != price.OnWire {
		r = Rates{Reads: values * assumedReads / 86400, Writes: values * assumedWrites / 86400}
	}
	return r
}

// Rates per value and day to assume if they are unknown.
const (
	assumedWrites = 1
	assumedReads  = 10
)

// Make measures what was collected and returns the plan.
func Make(ctx context.Context, c *Collector, o Options) (*Report, error) {
	o.setDefaults()
	if warning := o.WeighRates(c); warning != "" {
		o.Source.Notes = append(o.Source.Notes, warning)
	}
	c.MergeSimilar(o.Engine)
	p := &planner{Options: o, foreign: c.o.Foreign}
	all := c.found()
	if len(all) == 0 {
		return nil, ErrEmpty
	}
	r := p.newReport(c)
	values := 0.0
	for _, f := range all {
		values += f.sizes.values * f.scale
	}
	if p.Source.Items > 0 {
		values = float64(p.Source.Items)
	}
	if r.Rates = p.rates(values); values > 0 {
		r.perValue = Rates{r.Rates.Reads / values, r.Rates.Writes / values}
	}
	for _, f := range all {
		p.now += f.sizes.cost * f.scale
	}
	done := 0.0
	for i, f := range all {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r.left(f)
		if f.sizes.seen == 0 {
			continue
		}
		p.progress(done/max(p.now, 1), f.pattern)
		if i >= p.MaxGroups || f.pattern == everythingElse {
			r.rest(f)
			continue
		}
		g, err := p.group(ctx, f, r)
		if err != nil {
			return nil, err
		}
		done += f.sizes.cost * f.scale
		r.add(g)
	}
	if len(r.Groups) == 0 && r.Rest.Groups == 0 {
		return nil, r.empty()
	}
	r.finish()
	return r, nil
}

// empty returns an error that tells why there is nothing to measure.
func (r *Report) empty() error {
	if n := r.Left[sealedAlready]; n > 0 && len(r.Left) == 1 {
		return fmt.Errorf("%w: %s", ErrSealed, Count(n))
	}
	err := ErrEmpty
	for _, reason := range slices.Sorted(maps.Keys(r.Left)) {
		err = fmt.Errorf("%w: %s %s", err, Count(r.Left[reason]), reason)
	}
	return err
}

// group measures all candidates on one group and chooses one of them.
func (p *planner) group(ctx context.Context, f found, r *Report) (*GroupPlan, error) {
	g := p.newGroup(f, r)
	g.bounds = p.bounds(f, g, r)
	if len(f.sample.values) == 0 {
		g.notMeasured("none of its values could be read")
		return g, nil
	}
	if !p.MeasureDeadline.IsZero() && time.Now().After(p.MeasureDeadline) {
		g.notMeasured(timeWasUp)
		return g, nil
	}
	l := sampleSet{subjectsOf(f.sample.values), f.sample.sides, f.sizes.bytes * f.scale}
	if err := p.candidates(ctx, g, f, l, r); err != nil || g.Not != "" || !p.foreign {
		return g, err
	}
	return g, p.reseal(ctx, g, f, r)
}

// reseal measures all candidates again on the content of values that a client's library has compressed, if the
// group has such values.
func (p *planner) reseal(ctx context.Context, g *GroupPlan, f found, r *Report) error {
	t := f.sample.open(ctx)
	x, few := t.libraries(p.Source.Cost, f.kind, g.Now)
	if g.Foreign = x; x == nil {
		return nil
	}
	if x.explain(g, few); few {
		return nil
	}
	x.Resealed = p.newGroup(f, r)
	l := sampleSet{t.values, t.sides, f.sizes.bytes * f.scale * t.expansion()}
	if err := p.candidates(ctx, x.Resealed, f, l, r); err != nil {
		return err
	}
	x.Exact, x.Compared = t.countExact(p.Engine)
	x.suggestResealing(g)
	return nil
}

// A sampleSet holds the values of a group to train on and to measure.
type sampleSet struct {
	values []subject
	sides  []side
	bytes  float64 // bytes of the whole group to compress
}

// candidates measures all candidates on a sample set of the group.
func (p *planner) candidates(ctx context.Context, g *GroupPlan, f found, l sampleSet, r *Report) error {
	learn, test := halve(l.values, l.sides)
	if test = subsample(test); len(test) == 0 {
		g.notMeasured("too few values to measure")
		return nil
	}
	g.Measured = len(test)
	rules := &rules{kind: f.kind, cost: p.Source.Cost, minSize: p.MinSize, minGain: p.MinGain, never: p.Source.Never}
	d, found := trained{link: p.history(contents(learn))}, p.dictionary(ctx, learn, rules, l.bytes)
	if found != nil {
		d.values, g.Trained = found.Dict, found.Dict
	}
	p.room = slices.Grow(p.room[:0], roomFor(test))
	for _, c := range p.Candidates {
		if c.Dictionary && d.values == nil {
			continue
		}
		w := &measurement{sealer: c.sealer(p.Engine, d), rules: rules, room: p.room}
		if p.CPU != nil {
			w.model = func(raw, stored int) (compress, open time.Duration) { return p.CPU(c, raw, stored) }
		}
		m, err := w.measure(ctx, test, f.sizes.values*f.scale)
		if err != nil {
			return wrapCandidate(c, err)
		}
		m.Candidate = c
		m.Memory = p.memory(c, d, test[len(test)/2].content)
		if c.Dictionary {
			m.DictBytes = len(d.values.Content())
			m.DictCost = int64(p.Source.dictCost(d.values))
		}
		o := p.option(g, &m, r)
		if g.bounds != nil {
			if err := p.bound(ctx, w, g, &o, r); err != nil {
				return wrapCandidate(c, err)
			}
		}
		g.Options = append(g.Options, o)
	}
	p.choose(g)
	g.setRange()
	if o := g.Chosen(); o != nil && o.candidate.Dictionary && len(l.values) < fewValues {
		g.Trained = p.trainOnAll(contents(l.values), contents(test), found, o.candidate.Setting)
	}
	return nil
}

// dictionary trains a dictionary if there are candidates with one. total is the number of bytes of the group.
func (p *planner) dictionary(ctx context.Context, learn []subject, rules *rules, total float64) *dictionary.Found {
	if p.NoDictionaries || !slices.ContainsFunc(p.Candidates, func(c Candidate) bool { return c.Dictionary }) {
		return nil
	}
	return p.train(ctx, learn, rules, total)
}

func (p *planner) newReport(c *Collector) *Report {
	r := &Report{
		Source: p.Source.Name, Protocol: p.Source.Protocol, Medium: p.Source.Medium, Minimize: p.Minimize,
		LookedAt: LookedAt{Whole: p.Source.Whole, Names: c.Names, Total: p.Source.Total, TotalBytes: p.Source.Bytes, Values: c.Values, Bytes: c.Bytes},
		Layout:   LayoutInfo{max(p.Layout.Copies, 1), max(p.Layout.Zones, 1), p.Layout.Crossing()}, layout: p.Layout,
		Notes: p.Source.Notes, Prices: p.Prices, Zstd: p.Engine.ZstdName(), MadeAt: time.Now().UTC().Truncate(time.Second),
		Assumed:   p.Rates == (Rates{}) && p.Source.Rates == (Rates{}) && p.Source.Medium != price.OnWire,
		Telemetry: p.Telemetry, ZonesAssumed: p.ZonesAssumed,
		Observed: p.Source.Observed, Doubt: p.Source.Doubt, Groups: []*GroupPlan{},
	}
	for _, l := range p.Links {
		r.Links = append(r.Links, l.Name)
	}
	return r
}

func (p *planner) newGroup(f found, r *Report) *GroupPlan {
	s := &f.sizes
	g := &GroupPlan{
		Space: f.space, Pattern: f.pattern, Type: f.kind, Values: s.values * f.scale, Mean: s.mean(),
		Median: s.quantile(0.5), P99: s.quantile(0.99), Now: int64(s.cost * f.scale), Choice: -1, Best: -1,
		nowError: s.error(), Options: []Option{},
	}
	g.Margin = int64(margin(int(s.seen)) * g.nowError * float64(g.Now))
	for i, n := range s.buckets {
		if n > 0 {
			g.Sizes = append(g.Sizes, SizeCount{1 << i, math.Round(n * f.scale)})
		}
	}
	load := r.load(g, float64(g.Now), g.Mean)
	g.BillNow, g.wire = p.Prices.Month(p.Source.Medium, load, p.Layout), load.WireRate(p.Layout)
	return g
}

// option extrapolates a measurement to the whole group.
func (p *planner) option(g *GroupPlan, m *Measured, r *Report) Option {
	after := float64(g.Now)*m.ratio() + float64(m.DictCost)
	n := float64(max(m.Values, 1))
	o := Option{
		Name: m.Candidate.String(), Comparison: m.Candidate.Brotli > 0, candidate: m.Candidate,
		After: int64(after), Sealed: float64(m.Sealed) / n, StoredMean: g.Mean,
		CompressMicros: m.CompressSeconds * 1e6, OpenMicros: m.OpenSeconds * 1e6,
		Memory: m.Memory, DictionaryBytes: m.DictBytes, DictionaryCost: m.DictCost,
	}
	if m.Raw > 0 {
		o.StoredMean = g.Mean * float64(m.Stored) / float64(m.Raw)
	}
	o.Margin = int64(margin(m.Values) * math.Hypot(m.ratioError, g.nowError) * after)
	if after > 0 {
		o.Ratio = float64(g.Now) / after
	}
	load := r.load(g, after, o.StoredMean)
	load.CompressSeconds, load.OpenSeconds = m.CompressSeconds, m.OpenSeconds
	if p.Source.Medium == price.OnWire { // each message is compressed at one end and decompressed at the other
		load.OpenSeconds += load.CompressSeconds
	}
	o.Cores, o.operations, o.wire = load.Cores(), load.ReadsPerSecond+load.WritesPerSecond, load.WireRate(p.Layout)
	o.Bill = p.Prices.Month(p.Source.Medium, load, p.Layout)
	for _, l := range p.Links {
		plain := l.seconds(g.Mean)
		faster := plain - l.seconds(o.StoredMean)
		o.Latency = append(o.Latency, LinkDelta{
			Link: l.Name, PlainMicros: plain * 1e6,
			ReadMicros: (m.OpenSeconds - faster) * 1e6, WriteMicros: (m.CompressSeconds - faster) * 1e6,
		})
	}
	return o
}
