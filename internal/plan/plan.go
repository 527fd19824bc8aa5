package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/price"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// Objective is what is to be as small as possible.
type Objective string

// The objectives. Balance is bytes first: it saves memory and bytes while CPU is small, sets
// money against CPU where there is enough of both to matter, and takes twice the CPU of a value
// only for bytes that are worth it.
const (
	Balance    Objective = "balance"
	MinCost    Objective = "cost"
	MinLatency Objective = "latency"
	MinBytes   Objective = "bytes"
)

// SourceInfo is what the kind of source decides.
type SourceInfo struct {
	Name     string // without credentials
	Protocol string // of the gateway that could serve it; "" for none
	Medium   price.Medium
	Cost     Cost                    // nil: lengths
	Never    func(value []byte) bool // values that are never sealed; nil: none
	DictCost float64                 // bytes that the store holds for each byte of a dictionary
	Rates    Rates                   // observed; 0: unknown
	Observed Rates                   // also where they are not believed
	Doubt    string                  // why they are not; "": they are, or there are none
	Whole    bool                    // all of it was looked at
	Total    int64                   // names that there are; 0: unknown
	Bytes    int64                   // of files; 0: unknown
	Items    int64                   // that the rates count, with several values each; 0: they count values
	Notes    []string                // for people
}

// Rates are operations a second on the whole source.
type Rates struct {
	Reads  float64 `json:"reads_per_second"`
	Writes float64 `json:"writes_per_second"`
}

// Options say what to measure and what to want. Engine, Prices and Candidates have to be
// there.
type Options struct {
	Source     SourceInfo
	Engine     *codec.Engine
	Train      dict.Trainer // libzstd's; nil: pure Go's
	Candidates []Candidate
	MaxGroups  int // measured; 0: 64. The smallest ones beyond are not
	MinSize    int // bytes; smaller values are left alone; 0: 64
	MinGain    float64

	Minimize        Objective
	MaxCPU          time.Duration // of compressing and opening a value; 0: any
	MaxCores        float64       // at the rates; 0: any
	MaxLatency      time.Duration // that a value may lose, on the first link; 0: any
	Links           []Link
	Rates           Rates // 0: the source's, or what DefaultRates assumes
	Prices          price.Table
	Layout          price.Layout
	NoDictionaries  bool
	Pair            bool // there may be a gateway beside the server, too
	Progress        func(done float64, what string)
	MeasureDeadline time.Time // groups whose turn comes later are not measured; zero: none
	CPU             CostModel // nil: it is measured
}

// What is assumed about values when nobody knows the rates, each a day.
const (
	assumedWrites = 1
	assumedReads  = 10
)

// ErrEmpty: the source holds nothing that could be measured.
var ErrEmpty = errors.New("nothing to measure")

// ErrSealed: it did before Cinch came.
var ErrSealed = fmt.Errorf("%w: all values are sealed already", ErrEmpty)

type planner struct {
	Options
	memories map[memoryKey]Memory
	room     []byte  // for what is sealed while it is measured
	now      float64 // bytes of all groups
}

// Make measures what was collected and returns the plan.
func Make(ctx context.Context, c *Collector, o Options) (*Report, error) {
	o.setDefaults()
	if warning := o.WeighRates(c); warning != "" {
		o.Source.Notes = append(o.Source.Notes, warning)
	}
	c.Settle(o.Engine)
	p := &planner{Options: o}
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

// empty says why there is nothing to measure.
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

// sealedAlready is why values are left that a gateway or a packer has sealed.
const sealedAlready = "sealed already"

func (o *Options) setDefaults() {
	o.MaxGroups = cmp.Or(o.MaxGroups, 64)
	o.MinSize = cmp.Or(o.MinSize, 64)
	if o.MinGain == 0 {
		o.MinGain = 0.10
	}
	o.Minimize = cmp.Or(o.Minimize, Balance)
	o.Source.Medium = cmp.Or(o.Source.Medium, price.OnDisk)
	if o.Source.Cost == nil {
		o.Source.Cost = plainCost
	}
	if o.Source.Medium == price.OnWire && o.Minimize == MinCost && o.Layout.Crossing() == 0 {
		o.Minimize = MinBytes // traffic within a zone costs nothing
		o.Source.Notes = append(o.Source.Notes, "traffic within one zone is free: --zones 3 prices what crosses zones")
	}
}

func (p *planner) progress(done float64, what string) {
	if p.Progress != nil {
		p.Progress(done, "measuring "+what)
	}
}

// rates are those that were given, or observed, or assumed.
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

// group measures all candidates on one group and chooses among them.
func (p *planner) group(ctx context.Context, f found, r *Report) (*GroupPlan, error) {
	g := p.newGroup(f, r)
	if len(f.sample.values) == 0 {
		g.notMeasured("nothing of it could be read")
		return g, nil
	}
	if !p.MeasureDeadline.IsZero() && time.Now().After(p.MeasureDeadline) {
		g.notMeasured(timeWasUp)
		return g, nil
	}
	learn, test := halve(f.sample.values, f.sample.sides)
	if test = enough(test); len(test) == 0 {
		g.notMeasured("there are too few values to measure on")
		return g, nil
	}
	g.Measured = len(test)
	rules := &rules{kind: f.kind, cost: p.Source.Cost, minSize: p.MinSize, minGain: p.MinGain, never: p.Source.Never}
	d := p.dictionary(ctx, learn, f)
	g.Trained = d.values
	p.room = slices.Grow(p.room[:0], roomFor(test))
	for _, c := range p.Candidates {
		if c.Dictionary && d == (trained{}) {
			continue
		}
		w := &measurement{sealer: c.sealer(p.Engine, d), rules: rules, room: p.room}
		if p.CPU != nil {
			w.model = func(raw, stored int) (compress, open time.Duration) { return p.CPU(c, raw, stored) }
		}
		m, err := w.measure(ctx, test, f.sizes.values*f.scale)
		if err != nil {
			return nil, wrapCandidate(c, err)
		}
		m.Candidate = c
		m.Memory = p.memory(c, d, test[len(test)/2])
		if c.Dictionary {
			m.DictBytes = d.bytes()
			m.DictCost = int64(p.Source.DictCost * float64(m.DictBytes))
		}
		g.Options = append(g.Options, p.option(g, &m, r))
	}
	p.choose(g)
	if o := g.Chosen(); o != nil && o.candidate.Dictionary && o.candidate.way == "" && len(f.sample.values) < fewValues {
		g.Trained = p.fromAll(f.sample.values, test, d.values, o.candidate.Setting)
	}
	return g, nil
}

// dictionary trains what candidates take: one of values, or of requests and of replies.
func (p *planner) dictionary(ctx context.Context, learn [][]byte, f found) (d trained) {
	i := slices.IndexFunc(p.Candidates, func(c Candidate) bool { return c.Dictionary })
	if i < 0 || p.NoDictionaries {
		return d
	}
	total := f.sizes.bytes * f.scale
	if p.Candidates[i].way == "" {
		d.values = p.train(ctx, learn, total)
		return d
	}
	var requests, replies [][]byte
	for _, x := range learn {
		request, reply, err := splitExchange(x)
		if err == nil && len(request) <= maxDictMessage {
			requests = append(requests, request[wire.HeaderLen:])
		}
		if err == nil && len(reply) > wire.HeaderLen && len(reply) <= maxDictMessage {
			replies = append(replies, reply[wire.HeaderLen:])
		}
	}
	d.values, d.reply = p.train(ctx, requests, total), p.train(ctx, replies, total)
	return d
}

// bytes of the dictionaries.
func (d trained) bytes() (n int) {
	for _, x := range []*codec.Dict{d.values, d.reply} {
		if x != nil {
			n += len(x.Content())
		}
	}
	return n
}
