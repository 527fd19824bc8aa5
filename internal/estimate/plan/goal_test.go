package plan

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/internal/config/price"
)

// randomPlanner has random prices, zones, links and goals.
func randomPlanner(t *testing.T, r *rand.Rand) *planner {
	t.Helper()
	p := &planner{Options: options(t)}
	p.Prices = price.Table{}
	table, err := price.For(price.Clouds[r.IntN(len(price.Clouds))])
	if err != nil {
		t.Fatal(err)
	}
	for name, e := range table {
		if r.IntN(2) == 0 {
			e.Price *= math.Exp(6*r.Float64() - 3)
		}
		p.Prices[name] = e
	}
	p.Minimize = []Objective{Balance, MinCost, MinLatency, MinBytes}[r.IntN(4)]
	p.Layout = price.Layout{Copies: r.IntN(4), Zones: r.IntN(5)}
	if r.IntN(3) == 0 {
		p.Layout.CrossZone = new(r.Float64())
	}
	for range 1 + r.IntN(2) {
		p.Links = append(p.Links, Link{BitsPerSecond: math.Pow(10, 6+5*r.Float64())})
	}
	p.Source.Medium = []price.Medium{price.InMemory, price.OnDisk, price.OnWire}[r.IntN(3)]
	p.Rates = Rates{Reads: math.Pow(10, 8*r.Float64()-2), Writes: math.Pow(10, 8*r.Float64()-2)}
	p.setDefaults()
	return p
}

// randomMeasured returns a random result of a candidate for values of that length.
func randomMeasured(r *rand.Rand, mean float64) *Measured {
	m := &Measured{Values: 100, Sealed: 100, Raw: int64(100 * mean)}
	m.Candidate.Setting = codec.Setting{Codec: codec.Zstd, Level: 1 + r.IntN(19)}
	m.Before, m.Stored = m.Raw, int64(float64(m.Raw)*(0.02+1.1*r.Float64()))
	m.After = m.Stored
	m.CompressSeconds, m.OpenSeconds = 1e-6*math.Pow(10, 4*r.Float64()-1), 1e-6*math.Pow(10, 3*r.Float64()-1)
	if r.IntN(3) == 0 {
		m.DictCost = r.Int64N(1 << 20)
	}
	return m
}

// Under the requested goal a recommendation never costs more than leaving the group alone, by the figures
// that are printed with it; and the same holds for the sum of all groups.
func TestRecommendationNeverCostsMore(t *testing.T) {
	r := rand.New(rand.NewPCG(34, 2))
	chosen, goals := 0, map[Objective]int{}
	plans := codectest.Amount(300, 1000, 3000)
	for range plans {
		p := randomPlanner(t, r)
		rep := p.newReport(NewCollector(CollectOptions{}))
		for range 1 + r.IntN(4) {
			group, mean := newGroup(), 20*math.Pow(10, 4*r.Float64())
			group.sizes.add(int(mean), int(mean), math.Pow(10, 7*r.Float64()))
			rep.perValue = Rates{p.Rates.Reads / group.sizes.values, p.Rates.Writes / group.sizes.values}
			g := p.newGroup(found{address{"", "k:*", "string"}, group, 1}, rep)
			for range 1 + r.IntN(8) {
				g.Options = append(g.Options, p.option(g, randomMeasured(r, mean), rep))
			}
			p.choose(g)
			rep.add(g)
			o := g.Chosen()
			if o == nil {
				continue
			}
			chosen++
			goals[p.Minimize]++
			l := o.Latency[0]
			switch {
			case (p.Minimize == MinCost || p.Minimize == Balance) && o.Bill.Total() > g.BillNow.Total(),
				p.Minimize == MinBytes && o.After > g.Now,
				p.Minimize == MinLatency && l.ReadMicros+l.WriteMicros > 0:
				t.Fatalf("%s, %s, %+v: $%g now, $%g after, %d bytes now, %d after, read %+g us, write %+g us: %s",
					p.Minimize, p.Source.Medium, p.Layout, g.BillNow.Total(), o.Bill.Total(), g.Now, o.After, l.ReadMicros, l.WriteMicros, g.Why)
			}
		}
		rep.finish()
		if (p.Minimize == MinCost || p.Minimize == Balance) && rep.BillAfter.Total() > rep.BillNow.Total()*(1+1e-12) {
			t.Fatalf("%s: $%g now, $%g after", p.Minimize, rep.BillNow.Total(), rep.BillAfter.Total())
		}
	}
	for _, goal := range []Objective{Balance, MinCost, MinLatency, MinBytes} {
		if goals[goal] < plans/30 {
			t.Errorf("%s: only %d of %d recommendations", goal, goals[goal], chosen)
		}
	}
}

// messagesWithin returns a plan of messages between an application and a server in the same zone.
func messagesWithin(t *testing.T, goal Objective, at price.Layout) *Report {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 1))
	c := NewCollector(CollectOptions{})
	for range 300 {
		c.Add("shop.orders", "find", []byte(strings.Repeat(order(r), 8)), 1000)
	}
	link, err := ParseLink("10gbit,0.2ms")
	if err != nil {
		t.Fatal(err)
	}
	o := options(t)
	o.Candidates = slices.DeleteFunc(o.Candidates, func(c Candidate) bool { return c.Setting.Level > 3 || c.Brotli > 0 || c.Dictionary })
	o.Minimize, o.Layout, o.Links = goal, at, []Link{link}
	o.Source = SourceInfo{Medium: price.OnWire, Rates: Rates{Reads: 2000}}
	rep, err := Make(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// Within a zone traffic is free, so compression costs CPU and saves no money: messages are left alone, and
// the plan says so. If all of the traffic crosses zones compression pays off.
func TestWithinAZoneNothingPays(t *testing.T) {
	for _, goal := range []Objective{Balance, MinCost} {
		rep := messagesWithin(t, goal, price.Layout{Zones: 1})
		if g := rep.Groups[0]; g.Choice >= 0 || !strings.Contains(g.Why, "free") {
			t.Errorf("%s: %s: %s", goal, g.todo(), g.Why)
		}
		if rep.BillAfter.Total() > rep.BillNow.Total() {
			t.Errorf("%s: $%g now, $%g after", goal, rep.BillNow.Total(), rep.BillAfter.Total())
		}
		rep = messagesWithin(t, goal, price.Layout{Zones: 1, CrossZone: new(1.0)})
		if g := rep.Groups[0]; g.Choice < 0 {
			t.Errorf("%s, all of it crosses zones: %s", goal, g.Why)
		}
		third := messagesWithin(t, goal, price.Layout{Zones: 3})
		if all, part := rep.BillNow.Traffic, third.BillNow.Traffic; math.Abs(all*2/3-part) > 1e-9*all {
			t.Errorf("all of the traffic costs $%g, two thirds $%g", all, part)
		}
	}
	// With bytes as the goal, fewer bytes may cost money; then the plan says so.
	rep := messagesWithin(t, MinBytes, price.Layout{Zones: 1})
	if g := rep.Groups[0]; g.Choice < 0 || !strings.Contains(g.Why, "a month more") {
		t.Errorf("%s: %s", g.todo(), g.Why)
	}
}

// The setting that is said to have the fewest bytes has the fewest of those that may be chosen.
func TestFewestBytesAreTheFewest(t *testing.T) {
	r := rand.New(rand.NewPCG(34, 3))
	said := 0
	groups := codectest.Amount(1000, 1000, 3000)
	for range groups {
		p := &planner{Options: options(t)}
		p.Minimize = []Objective{Balance, MinBytes}[r.IntN(2)]
		g := randomGroup(p, r)
		p.choose(g)
		o := g.Chosen()
		if o == nil || !strings.HasPrefix(g.Why, "fewest bytes") {
			if o != nil && p.Minimize == MinBytes {
				t.Fatalf("%s: %s", o.Name, g.Why)
			}
			continue
		}
		said++
		for i := range g.Options {
			if x := &g.Options[i]; x.Ruled == "" && x.After < o.After {
				t.Fatalf("%s: %d bytes are called the fewest, another candidate has %d: %s", p.Minimize, o.After, x.After, g.Why)
			}
		}
	}
	if said < groups/10 {
		t.Errorf("only %d say so", said)
	}
}

// The text names what crosses zones, and whether that is assumed.
func TestTextNamesWhatCrosses(t *testing.T) {
	for _, c := range []struct {
		at      price.Layout
		assumed bool
		want    string
	}{
		{price.Layout{Zones: 3}, true, "67% of the traffic crosses zones, assuming 3 zones (--zones, --cross-zone)"},
		{price.Layout{Zones: 2}, false, "50% of the traffic crosses zones (2 zones)"},
		{price.Layout{Zones: 3, CrossZone: new(1.0)}, false, "100% of the traffic crosses zones"},
		{price.Layout{Zones: 3, CrossZone: new(0.0)}, false, "no traffic crosses zones"},
		{price.Layout{Zones: 1}, false, "no traffic crosses zones"},
	} {
		rep := messagesWithin(t, Balance, c.at)
		rep.ZonesAssumed = c.assumed
		var text, page bytes.Buffer
		if err := rep.Text(&text, TextOptions{Width: 1000}); err != nil {
			t.Fatal(err)
		}
		if err := rep.HTML(&page); err != nil {
			t.Fatal(err)
		}
		for what, out := range map[string]string{"text": text.String(), "page": page.String()} {
			if !strings.Contains(strings.ToLower(out), strings.ToLower(c.want)) {
				t.Errorf("%s of %+v: no %q in\n%.3000s", what, c.at, c.want, out)
			}
		}
	}
}
