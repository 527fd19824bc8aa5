package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/price"
	"github.com/cinch-layer/cinch/internal/store/mongo"
)

// markers are the documents that messages hold, by a mark in each.
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

// Inserts are of documents that are not there yet: none is in a message twice, none is both learned
// from and measured on, however often the sample has to serve. So random documents gain
// nothing, where they seemed to shrink to what their names take.
func TestModelledInsertsAreHeldOut(t *testing.T) {
	for _, per := range []int{1, 1000} {
		r := rand.New(rand.NewPCG(9, uint64(per)))
		c := NewCollector(CollectOptions{})
		w := &mongoWalk{c: c, o: MongoOptions{Server: new(mongo.Server)}, info: new(SourceInfo), counted: true, activity: mongo.Activity{Inserted: float64(per)}}
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
		one, other := halve(asHeld(found.sample.values), found.sample.sides)
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

// An average over several collections is not taken for that of one: finds of single documents beside large scans are not
// measured, with the bounds that the counters leave. What has nearly all replies, or was given, is measured.
func TestAveragesOfOtherCollectionsAreNotTaken(t *testing.T) {
	for _, c := range []struct {
		what     string
		counts   mongo.Counts
		activity mongo.Activity
		batch    int
		measured []string
		says     string
	}{
		{"finds beside scans", mongo.Counts{Queries: 900}, mongo.Activity{Returned: 50, Replies: 1000}, 0, nil, "between 0 and 56"},
		{"all finds", mongo.Counts{Queries: 999}, mongo.Activity{Returned: 50, Replies: 1000}, 0, []string{"find"}, ""},
		{"finds and their getMores", mongo.Counts{Queries: 500, GetMores: 500}, mongo.Activity{Returned: 50, Replies: 1000}, 0, nil, "between 0 and 100"},
		{"given", mongo.Counts{Queries: 900}, mongo.Activity{Returned: 50, Replies: 1000}, 20, []string{"find"}, ""},
		{"inserts beside bulk loads", mongo.Counts{Inserts: 100}, mongo.Activity{Inserted: 10, Inserts: 200}, 0, nil, "between 1 and 19"},
		{"single inserts", mongo.Counts{Inserts: 100}, mongo.Activity{Inserted: 1, Inserts: 200}, 0, []string{"insert"}, ""},
	} {
		col := NewCollector(CollectOptions{})
		w := &mongoWalk{c: col, o: MongoOptions{Server: new(mongo.Server), Batch: c.batch}, info: new(SourceInfo), counted: true, activity: c.activity}
		m := &modeller{w: w, c: mongo.Collection{Database: "shop", Name: "orders"}, counts: c.counts}
		for i := range 100 {
			doc, err := bson.Marshal(bson.D{{Key: "_id", Value: i}})
			if err != nil {
				t.Fatal(err)
			}
			m.documents = append(m.documents, doc)
		}
		m.model()
		var measured []string
		reasons := ""
		for _, f := range col.found() {
			if f.sizes.seen > 0 {
				measured = append(measured, f.kind)
			}
			for reason := range f.skip {
				reasons += reason + "\n"
			}
		}
		if !slices.Equal(measured, c.measured) || !strings.Contains(reasons, c.says) {
			t.Errorf("%s: measured %q, left: %s", c.what, measured, reasons)
		}
	}
}
