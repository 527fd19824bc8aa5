package plan

import (
	"context"
	"fmt"

	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// The unknown quantities of messages.
const (
	perReply  = "documents a reply"
	perInsert = "documents an insert"
)

// between describes a group whose messages have an unknown number of documents: messages with the fewest,
// with some numbers in between, and with the most.
type between struct {
	what   string  // perReply or perInsert
	n      float64 // number of messages
	all    []variant
	halves bool // messages are made of two halves of the documents, in turn
}

// variant holds the messages of a group if each had this many documents.
type variant struct {
	documents float64
	messages  [][]byte
	scale     float64 // factor for their bytes, if a message would have more documents than were sampled
}

// Range holds the bounds of a group whose messages have an unknown number of documents. The group's own
// figures are in the middle, and its margins reach both ends.
type Range struct {
	Of        string  `json:"of"` // the unknown quantity
	Low       Bound   `json:"low"`
	High      Bound   `json:"high"`
	SavesLow  float64 `json:"saves_low"` // share of the bytes, with the recommended candidate, or the closest one
	SavesHigh float64 `json:"saves_high"`
}

// Bound is one end of a range.
type Bound struct {
	Documents float64 `json:"documents"`
	Now       int64   `json:"bytes_now"`
	After     int64   `json:"bytes_after"`
}

// withDocuments is a group with a given number of documents per message, and its measurements.
type withDocuments struct {
	documents float64
	group     *GroupPlan
	test      []subject
	values    float64
}

// between adds a group whose messages lie between two ends.
func (c *Collector) between(pattern, kind string, b *between) {
	for _, m := range []*variant{&b.all[0], &b.all[len(b.all)-1]} {
		for i, message := range m.messages {
			c.AddTo(b.side(i), pattern, kind, message, b.n/2/float64(len(m.messages)))
		}
	}
	c.named("", pattern, kind).between = b
}

// side returns the half of the documents that message i is made of.
func (b *between) side(i int) side {
	if b.halves && i%2 == 0 {
		return toLearn
	}
	return toTest
}

// bounds returns the group with each number of documents, and sets the group's own figures, which are in the
// middle. It returns nil for a group whose messages are known.
func (p *planner) bounds(f found, g *GroupPlan, r *Report) (all []withDocuments) {
	b := f.between
	if b == nil {
		return nil
	}
	for _, m := range b.all {
		group, test := newGroup(), make([][]byte, 0, len(m.messages))
		for i, message := range m.messages {
			group.sizes.add(len(message), len(message), b.n/float64(len(m.messages)))
			if b.side(i) == toTest {
				test = append(test, message)
			}
		}
		all = append(all, withDocuments{m.documents, p.newGroup(found{f.address, group, m.scale}, r), subjectsOf(test), b.n})
	}
	low, high := all[0].group, all[len(all)-1].group
	g.Range = &Range{Of: b.what, Low: Bound{Documents: all[0].documents, Now: low.Now}, High: Bound{Documents: all[len(all)-1].documents, Now: high.Now}}
	g.Values, g.Now, g.Margin, g.nowError = b.n, (low.Now+high.Now)/2, (high.Now-low.Now+1)/2, 0
	g.Mean = float64(g.Now) / g.Values
	g.BillNow, g.wire = middleBill(low.BillNow, high.BillNow), (low.wire+high.wire)/2
	return all
}

// bound measures a candidate with each number of documents, and sets the option to the middle.
func (p *planner) bound(ctx context.Context, w *measurement, g *GroupPlan, o *Option, r *Report) error {
	for _, b := range g.bounds {
		m, err := w.measure(ctx, b.test, b.values)
		if err != nil {
			return err
		}
		m.Candidate, m.DictBytes, m.DictCost = o.candidate, o.DictionaryBytes, o.DictionaryCost
		o.bounds = append(o.bounds, p.option(b.group, &m, r))
	}
	low, high := &o.bounds[0], &o.bounds[len(o.bounds)-1]
	o.After, o.Margin = (low.After+high.After)/2, (max(high.After, low.After)-min(high.After, low.After)+1)/2
	o.Ratio = float64(g.Now) / float64(max(o.After, 1))
	o.StoredMean = float64(o.After) / g.Values
	o.Cores, o.wire, o.operations = (low.Cores+high.Cores)/2, (low.wire+high.wire)/2, (low.operations+high.operations)/2
	o.Bill = middleBill(low.Bill, high.Bill)
	return nil
}

func middleBill(a, b price.Bill) price.Bill {
	sum := a.Add(b)
	return price.Bill{Storage: sum.Storage / 2, Traffic: sum.Traffic / 2, CPU: sum.CPU / 2}
}

// lossReason returns with how many documents a candidate does not pay off, or "" if it always does.
func (p *planner) lossReason(g *GroupPlan, o *Option) string {
	for i := range o.bounds {
		b, at := &g.bounds[i], &o.bounds[i]
		if float64(b.group.Now-at.After) < minSaving*float64(b.group.Now) || p.gain(b.group, at) < minGainShare {
			return fmt.Sprintf("may not pay off, for example with %s %s", Count(b.documents), g.Range.Of)
		}
	}
	return ""
}

// setRange fills in the range of a group once its candidate is known.
func (g *GroupPlan) setRange() {
	o := g.best()
	if g.Range == nil || o == nil {
		return
	}
	g.Range.Low.After, g.Range.High.After = o.bounds[0].After, o.bounds[len(o.bounds)-1].After
	for i := range o.bounds {
		saves := 0.0
		if now := g.bounds[i].group.Now; now > 0 {
			saves = 1 - float64(o.bounds[i].After)/float64(now)
		}
		if i == 0 {
			g.Range.SavesLow, g.Range.SavesHigh = saves, saves
		}
		g.Range.SavesLow, g.Range.SavesHigh = min(g.Range.SavesLow, saves), max(g.Range.SavesHigh, saves)
	}
}

// words returns what is unknown of a group, and the resulting range of bytes and percentages.
func (x *Range) words(o *Option) string {
	s := fmt.Sprintf("%s are not known, between %s and %s", x.Of, Count(x.Low.Documents), Count(x.High.Documents))
	s += fmt.Sprintf(": %s to %s now", terminal.Size(x.Low.Now), terminal.Size(x.High.Now))
	if o != nil {
		s += fmt.Sprintf("; %s saves %s of them", o.Name, x.saves())
	}
	if x.Of == perReply {
		s += ". --batch N sets them"
	}
	return s + ". To measure them, turn on the profiler (level 2), or run a gateway with sample: true"
}

// saves formats the percentages of both ends.
func (x *Range) saves() string {
	return fmt.Sprintf("%.0f-%.0f%%", 100*x.SavesLow, 100*x.SavesHigh)
}
