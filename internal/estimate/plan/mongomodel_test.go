package plan

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/store/mongo"
)

// markers counts the documents in messages, by a mark in each.
func markers(values [][]byte) map[string]int {
	seen := map[string]int{}
	for _, v := range values {
		for _, word := range strings.Fields(string(v)) {
			if strings.HasPrefix(word, "doc#") {
				seen[word]++
			}
		}
	}
	return seen
}

// Modelled inserts contain new documents: none is in a message twice, and none is used for both training and
// measuring, however often the sample has to be reused. So random documents gain nothing. Before that was so, they
// seemed to shrink to the size of their field names.
func TestModelledInsertsAreHeldOut(t *testing.T) {
	for _, per := range []int{1, 1000} {
		r := rand.New(rand.NewPCG(9, uint64(per)))
		c := NewCollector(CollectOptions{})
		w := &mongoWalk{c: c, o: MongoOptions{Server: new(mongo.Server)}, info: new(SourceInfo), counted: true, activity: mongo.Activity{Inserted: float64(per), Inserts: 1_000_000}}
		m := &modeller{w: w, c: mongo.Collection{Database: "shop", Name: "blobs"}, counts: mongo.Counts{Inserts: 1_000_000}}
		for i := range 300 {
			doc, err := bson.Marshal(bson.D{{Key: "mark", Value: fmt.Sprintf(" doc#%d ", i)}, {Key: "blob", Value: noise(r, 600)}})
			if err != nil {
				t.Fatal(err)
			}
			m.documents = append(m.documents, doc)
		}
		m.model()
		found := c.found()[0]
		one, other := halve(subjectsOf(found.sample.values), found.sample.sides)
		learn, test := contents(one), contents(other)
		learned := markers(learn)
		for mark := range markers(test) {
			if learned[mark] > 0 {
				t.Fatalf("%d a message: %s is learned from and measured on", per, mark)
			}
		}
		for _, x := range append(learn, test...) {
			for mark, n := range markers([][]byte{x}) {
				if n > 1 {
					t.Fatalf("%d a message: %s is in it %d times", per, mark, n)
				}
			}
		}
		o := options(t)
		o.Candidates, o.Source.Medium, o.Pair = WireCandidates(), price.OnWire, true
		o.Engine = codec.New(codec.Options{})
		rep, err := Make(t.Context(), c, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, option := range rep.Groups[0].Options {
			if option.Ratio > 1.3 {
				t.Errorf("%d a message: %s makes random documents %.1f times smaller", per, option.Name, option.Ratio)
			}
		}
	}
}

// An average over several collections is not used for a single one: finds of single documents next to large
// scans have a range, within the bounds that the counters leave. If one collection has nearly all replies, or
// the number was given, it is measured. If the server has no counters of documents, one per message is not
// assumed.
func TestAveragesOfOtherCollectionsAreNotTaken(t *testing.T) {
	for _, c := range []struct {
		what     string
		counts   mongo.Counts
		activity mongo.Activity
		batch    int
		measured bool
		low      float64
		high     float64
	}{
		{"finds beside scans", mongo.Counts{Queries: 900}, mongo.Activity{Returned: 50, Replies: 1000}, 0, false, 0, 50000. / 900},
		{"all finds", mongo.Counts{Queries: 999}, mongo.Activity{Returned: 50, Replies: 1000}, 0, true, 0, 0},
		{"all finds, and a plan's aggregations", mongo.Counts{Queries: 999}, mongo.Activity{Returned: 50, Replies: 1000, Aggregations: 1}, 0, false, 0, 50000. / 999},
		{"given", mongo.Counts{Queries: 900}, mongo.Activity{Returned: 50, Replies: 1000}, 20, true, 0, 0},
		{"serverStatus refused", mongo.Counts{Queries: 900}, mongo.Activity{}, 0, false, 0, 5000},
		{"only reads known", mongo.Counts{Reads: 900}, mongo.Activity{}, 0, false, 0, 5000},
		{"only writes known", mongo.Counts{Writes: 10}, mongo.Activity{}, 0, false, 1, 500},
		{"inserts beside bulk loads", mongo.Counts{Inserts: 100}, mongo.Activity{Inserted: 10, Inserts: 200}, 0, false, 1, 19},
		{"single inserts", mongo.Counts{Inserts: 100}, mongo.Activity{Inserted: 1, Inserts: 200}, 0, true, 0, 0},
	} {
		col := NewCollector(CollectOptions{})
		w := &mongoWalk{c: col, o: MongoOptions{Server: new(mongo.Server), Batch: c.batch}, info: new(SourceInfo), counted: true, activity: c.activity}
		m := &modeller{w: w, c: mongo.Collection{Database: "shop", Name: "orders"}, counts: c.counts, total: 5000}
		for i := range 100 {
			doc, err := bson.Marshal(bson.D{{Key: "_id", Value: i}, {Key: "status", Value: "shipped"}, {Key: "note", Value: "left at the door of the neighbour"}})
			if err != nil {
				t.Fatal(err)
			}
			m.documents = append(m.documents, doc)
		}
		m.model()
		all := col.found()
		if len(all) != 1 || (all[0].between == nil) != c.measured {
			t.Errorf("%s: %d groups, measured %v", c.what, len(all), all[0].between == nil)
			continue
		}
		o := options(t)
		few := slices.DeleteFunc(WireCandidates(), func(c Candidate) bool { return c.Setting.Level > 3 })
		o.Candidates, o.Source.Medium, o.Pair, o.Engine = few, price.OnWire, true, codec.New(codec.Options{})
		o.CPU = func(Candidate, int, int) (compress, open time.Duration) { return time.Microsecond, time.Microsecond }
		rep, err := Make(t.Context(), col, o)
		if err != nil {
			t.Fatal(err)
		}
		g := rep.Groups[0]
		if c.measured {
			if g.Range != nil {
				t.Errorf("%s: %+v", c.what, g.Range)
			}
			continue
		}
		if g.Range.Low.Documents != c.low || math.Abs(g.Range.High.Documents-c.high) > 0.01 {
			t.Errorf("%s: between %v and %v documents, want %v and %v", c.what, g.Range.Low.Documents, g.Range.High.Documents, c.low, c.high)
		}
		// The group's figures are the middle, with margins to both ends.
		doc := float64(len(m.documents[0]))
		if most := c.high * doc * g.Values; float64(g.Range.High.Now) < most || float64(g.Range.High.Now) > 1.5*most+500*g.Values {
			t.Errorf("%s: %d bytes at most, of %v documents alone", c.what, g.Range.High.Now, most)
		}
		if g.Now-g.Margin > g.Range.Low.Now || g.Now+g.Margin < g.Range.High.Now-1 || g.Range.SavesLow >= g.Range.SavesHigh || rep.NowMargin < g.Margin {
			t.Errorf("%s: %d ± %d, %+v", c.what, g.Now, g.Margin, g.Range)
		}
		if c.counts.Queries+c.counts.Inserts+c.counts.Reads+c.counts.Writes != int64(math.Round(g.Values)) {
			t.Errorf("%s: stands for %v", c.what, g.Values)
		}
		var text, html bytes.Buffer
		if err := errors.Join(rep.Text(&text, TextOptions{Width: 1000}), rep.HTML(&html)); err != nil {
			t.Fatal(err)
		}
		for _, s := range []string{g.Range.saves(), "not known, between " + Count(c.low) + " and " + Count(c.high)} {
			if !strings.Contains(text.String(), s) || !strings.Contains(html.String(), s) {
				t.Errorf("%s: does not say %q:\n%s", c.what, s, text.String())
			}
		}
	}
}
