package plan

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// CollectOptions bound what a Collector holds. The zero value is the default.
type CollectOptions struct {
	SampleBytes int // of sampled values, in all; 0: 48 MiB
	GroupBytes  int // and of one group; 0: 8 MiB
	ReadNames   int // names of a pattern that are all read; from then on ever fewer; 0: 2500
	ReadBytes   int // likewise bytes of their values; 0: 256 MiB
	Seed        uint64

	Cost Cost // of values as they are; nil: their length

	// Foreign says that values may be those that client libraries have compressed: what these hold is compared and measured, too.
	Foreign bool
}

// Cost says how many bytes a value of raw bytes takes where it is held, and one of stored
// bytes in its place.
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

// Collector finds groups among what a source offers and samples them. It is not for
// concurrent use.
type Collector struct {
	o      CollectOptions
	random *rand.Rand
	trees  map[string]*tree // by space
	fixed  map[address]*Group
	scales map[string]float64 // of spaces that were not read to their ends
	bytes  int                // of samples

	Names  int64 // offered
	Values int64 // looked at
	Bytes  int64 // of these
}

// address is what a group covers: a glob of names in a space, and a type.
type address struct{ space, pattern, kind string }

// maxFixed bounds the groups that sources name themselves.
const maxFixed = 256

// NewCollector returns an empty one.
func NewCollector(o CollectOptions) *Collector {
	o.setDefaults()
	return &Collector{
		o: o, random: rand.New(rand.NewPCG(0x63696e63, o.Seed)),
		trees: make(map[string]*tree), fixed: make(map[address]*Group),
	}
}

// Ticket is what a name drew: whether its values are to be read, and for how many names
// they then stand.
type Ticket struct {
	Read   bool
	chance float64
	weight float64
	side   side
}

// Offer counts a name and says whether to read its values. The more names of a pattern
// there were, the fewer of the next are read.
func (c *Collector) Offer(space string, name []byte) Ticket {
	t := c.trees[space]
	if t == nil {
		t = new(tree)
		c.trees[space] = t
	}
	l := t.pass(name, 1)
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

// readChance falls with the number of names, and sooner when their values are long.
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

// Value adds a value of a name that was to be read. Each draws anew, among those that would be
// read: a name may have many, as a large hash, and a sample that shrinks must not lose all at once.
func (c *Collector) Value(space string, name []byte, kind string, t Ticket, value []byte) {
	t.chance = c.random.Float64() / t.weight
	c.count(c.group(space, name, kind), kind, value, t)
}

// Left counts a name, or a value, that is not measured.
func (c *Collector) Left(space string, name []byte, kind string, t Ticket, reason string) {
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

// Add adds a value to a group that the source names itself, which stands for weight values.
func (c *Collector) Add(pattern, kind string, value []byte, weight float64) {
	c.count(c.named("", pattern, kind), kind, value, Ticket{chance: c.random.Float64(), weight: weight})
}

// AddTo is Add for a value that is only learned from, or only measured on.
func (c *Collector) AddTo(of side, pattern, kind string, value []byte, weight float64) {
	c.count(c.named("", pattern, kind), kind, value, Ticket{chance: c.random.Float64(), weight: weight, side: of})
}

// Pass counts values of such a group that are not measured.
func (c *Collector) Pass(pattern, kind, reason string, weight float64) {
	c.Without("", pattern, kind, reason, weight)
}

// Sampled adds a value of a group in a space of which such a share is looked at, in runs of
// neighbours, which may be more alike than others.
func (c *Collector) Sampled(space, pattern, kind string, value []byte, share float64, run int) {
	g := c.named(space, pattern, kind)
	g.sample.lower(share)
	cost, _ := c.o.Cost(kind, len(value), len(value))
	g.sizes.runs.add(run, float64(cost)/share, 1/share)
	c.count(g, kind, value, Ticket{chance: share * c.random.Float64(), weight: 1 / share})
}

// Without is Pass for a group in a space.
func (c *Collector) Without(space, pattern, kind, reason string, weight float64) {
	c.named(space, pattern, kind).left(reason, weight)
}

// scale says that there is more of a space than was seen.
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

// shrink halves the largest sample. Samples also shrink when patterns are merged, so the
// sum is made anew.
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
	scale float64 // of its weights, so that they add up to the names that were offered
}

// found lists all groups, those with most bytes first.
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

// everythingElse is the group of what is too little, or too various, for groups of its own.
const everythingElse = "(everything else)"

// Samples hands over all that was sampled, with a name for its group that is fit for a file.
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
