package plan

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// CollectOptions limits what a Collector holds. The zero value is the default.
type CollectOptions struct {
	SampleBytes int // of sampled values in total; 0: 48 MiB
	GroupBytes  int // of sampled values of one group; 0: 8 MiB
	ReadNames   int // names of a pattern that are all read, before the share falls; 0: 2500
	ReadBytes   int // bytes of a pattern's values, likewise; 0: 256 MiB
	Seed        uint64

	Cost Cost // of uncompressed values; nil: their length

	// Foreign says that client libraries may have compressed values: their content is compared and measured,
	// too.
	Foreign bool
}

// Cost returns how many bytes the store takes for a value of raw bytes, and for one of stored bytes in its
// place.
type Cost func(kind string, raw, stored int) (before, after int)

func plainCost(_ string, raw, stored int) (before, after int) { return raw, stored }

func (o *CollectOptions) setDefaults() {
	o.SampleBytes = cmp.Or(o.SampleBytes, 48<<20)
	o.GroupBytes = cmp.Or(o.GroupBytes, 8<<20)
	o.ReadNames = cmp.Or(o.ReadNames, 2500)
	o.ReadBytes = cmp.Or(o.ReadBytes, 256<<20)
	if o.Cost == nil {
		o.Cost = plainCost
	}
}

// Collector groups and samples what a source offers. It is not for concurrent use.
type Collector struct {
	o      CollectOptions
	random *rand.Rand
	trees  map[string]*tree // by space
	fixed  map[address]*Group
	scales map[string]float64 // of spaces that were not read completely
	bytes  int                // of samples

	Names  int64 // offered
	Values int64 // seen
	Bytes  int64 // of the values seen
}

// address identifies a group: a glob of names in a space, and a type.
type address struct{ space, pattern, kind string }

// maxFixed limits the groups that sources name themselves.
const maxFixed = 256

// NewCollector returns an empty Collector.
func NewCollector(o CollectOptions) *Collector {
	o.setDefaults()
	return &Collector{
		o: o, random: rand.New(rand.NewPCG(0x63696e63, o.Seed)),
		trees: make(map[string]*tree), fixed: make(map[address]*Group),
	}
}

// Ticket is the decision about a name: whether its values are to be read, and for how many names they then
// stand.
type Ticket struct {
	Read   bool
	chance float64
	weight float64
	side   side
}

// Offer counts a name and decides whether to read its values. The more names of a pattern it has seen, the
// fewer it reads.
func (c *Collector) Offer(space string, name []byte) Ticket {
	t := c.trees[space]
	if t == nil {
		t = new(tree)
		c.trees[space] = t
	}
	l := t.findTimes(name, 1)
	c.Names++
	l.seen++
	read := c.readChance(l)
	ticket := Ticket{chance: c.random.Float64(), weight: 1 / read}
	if ticket.Read = ticket.chance < read; ticket.Read {
		l.read += ticket.weight
	}
	for _, g := range l.kinds {
		g.sample.lower(read)
	}
	return ticket
}

// readChance returns the probability of reading a name, which falls with the number of names, and sooner if
// their values are long.
func (c *Collector) readChance(l *leaf) float64 {
	p := float64(c.o.ReadNames) / float64(l.seen)
	var bytes, weight float64
	for _, g := range l.kinds {
		bytes, weight = bytes+g.sizes.bytes, weight+g.sizes.values
	}
	if bytes > 0 && l.read > 0 {
		perName := bytes / l.read
		p = min(p, float64(c.o.ReadBytes)/(perName*float64(l.seen)))
	}
	return min(p, 1)
}

// Value adds a value of a name that was to be read. Each value draws its own chance: a name, such as that of
// a large hash, may have many values, and a shrinking sample must not lose all at once.
func (c *Collector) Value(space string, name []byte, kind string, t Ticket, value []byte) {
	t.chance = c.random.Float64() / t.weight
	c.count(c.group(space, name, kind), kind, value, t)
}

// Skip counts a name or a value that is not measured.
func (c *Collector) Skip(space string, name []byte, kind string, t Ticket, reason string) {
	c.group(space, name, kind).left(reason, t.weight)
}

func (c *Collector) group(space string, name []byte, kind string) *Group {
	t := c.trees[space]
	if t == nil {
		t = new(tree)
		c.trees[space] = t
	}
	l := t.find(name)
	g := l.kinds[kind]
	if g == nil {
		g = newGroup()
		g.sample.keep = c.readChance(l)
		l.kinds[kind] = g
	}
	return g
}

// Add adds a value that stands for weight values to a group that the source names itself.
func (c *Collector) Add(pattern, kind string, value []byte, weight float64) {
	c.count(c.named("", pattern, kind), kind, value, Ticket{chance: c.random.Float64(), weight: weight})
}

// AddTo is Add for a value that is used only for training, or only for measuring.
func (c *Collector) AddTo(of side, pattern, kind string, value []byte, weight float64) {
	c.count(c.named("", pattern, kind), kind, value, Ticket{chance: c.random.Float64(), weight: weight, side: of})
}

// SkipInGroup counts values that are not measured, of a group that the source names itself.
func (c *Collector) SkipInGroup(pattern, kind, reason string, weight float64) {
	c.SkipInSpace("", pattern, kind, reason, weight)
}

// AddInSpace adds a value of a group in a space. The given share of the space is sampled, in runs of neighbours,
// which may be more alike than other values.
func (c *Collector) AddInSpace(space, pattern, kind string, value []byte, share float64, run int) {
	g := c.named(space, pattern, kind)
	g.sample.lower(share)
	cost, _ := c.o.Cost(kind, len(value), len(value))
	g.sizes.runs.add(run, float64(cost)/share, 1/share)
	c.count(g, kind, value, Ticket{chance: share * c.random.Float64(), weight: 1 / share})
}

// SkipInSpace is SkipInGroup for a group in a space.
func (c *Collector) SkipInSpace(space, pattern, kind, reason string, weight float64) {
	c.named(space, pattern, kind).left(reason, weight)
}

// scale records by what factor a space is larger than the part of it that was seen.
func (c *Collector) scale(space string, factor float64) {
	if c.scales == nil {
		c.scales = make(map[string]float64)
	}
	c.scales[space] = factor
}

func (c *Collector) named(space, pattern, kind string) *Group {
	at := address{space: space, pattern: pattern, kind: kind}
	if c.fixed[at] == nil && len(c.fixed) >= maxFixed {
		at.pattern = everythingElse
	}
	g := c.fixed[at]
	if g == nil {
		g = newGroup()
		c.fixed[at] = g
	}
	return g
}

func (c *Collector) count(g *Group, kind string, value []byte, t Ticket) {
	c.Values++
	c.Bytes += int64(len(value))
	before := g.sample.bytes
	cost, _ := c.o.Cost(kind, len(value), len(value))
	g.add(value, t.side, cost, t.chance, t.weight)
	g.sample.shrink(c.o.GroupBytes)
	c.bytes += g.sample.bytes - before
	if c.bytes > c.o.SampleBytes {
		c.shrink()
	}
}

// shrink halves the largest sample. Samples also shrink when patterns are merged, so it recomputes the sum.
func (c *Collector) shrink() {
	c.bytes = 0
	var largest *Group
	for _, f := range c.found() {
		c.bytes += f.sample.bytes
		if largest == nil || f.sample.bytes > largest.sample.bytes {
			largest = f.Group
		}
	}
	if c.bytes > c.o.SampleBytes {
		before := largest.sample.bytes
		largest.sample.shrink(before / 2)
		c.bytes += largest.sample.bytes - before
	}
}

// found is a group with its address.
type found struct {
	address
	*Group
	scale float64 // factor that makes its weights add up to the names that were offered
}

// found returns all groups, those with most bytes first.
func (c *Collector) found() []found {
	var all []found
	for space, t := range c.trees {
		t.patterns(func(glob string, l *leaf) {
			scale := 1.0
			if l.read > 0 {
				scale = float64(l.seen) / l.read
			}
			for kind, g := range l.kinds {
				all = append(all, found{address{space, glob, kind}, g, scale})
			}
		})
	}
	for at, g := range c.fixed {
		scale := 1.0
		if f, ok := c.scales[at.space]; ok {
			scale = f
		}
		all = append(all, found{at, g, scale})
	}
	slices.SortFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(b.sizes.cost*b.scale, a.sizes.cost*a.scale),
			cmp.Compare(a.space, b.space), cmp.Compare(a.pattern, b.pattern), cmp.Compare(a.kind, b.kind))
	})
	return all
}

// everythingElse is the group of values too few, or too various, for groups of their own.
const everythingElse = "(everything else)"

// Samples calls f for all sampled values, with a name for their group that is suitable for a file.
func (c *Collector) Samples(f func(group string, i int, value []byte) error) error {
	for n, found := range c.found() {
		group := strings.Trim(unfit.ReplaceAllString(found.pattern+"-"+found.kind, "-"), "-.")
		group = fmt.Sprintf("%03d-%s", n+1, group[:min(len(group), 60)])
		for i, v := range found.sample.values {
			if err := f(group, i, v); err != nil {
				return err
			}
		}
	}
	return nil
}
