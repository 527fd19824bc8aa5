package plan

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/store/mongo"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// modelled returns exchanges of a collection: finds of batch documents, and inserts.
func modelled(t testing.TB, n, batch int) (finds, inserts [][]byte) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 3))
	m := &modeller{w: &mongoWalk{o: MongoOptions{Server: new(mongo.Server)}}, c: mongo.Collection{Database: "shop", Name: "orders"}}
	for i := range 200 {
		doc, err := bson.Marshal(bson.D{{Key: "_id", Value: i}, {Key: "text", Value: order(r)}})
		if err != nil {
			t.Fatal(err)
		}
		m.documents = append(m.documents, doc)
	}
	for range n {
		request, reply := m.find(batch)
		finds = append(finds, append(request, reply...))
		request, reply = m.insert(m.baseInsert(), 1)
		inserts = append(inserts, append(request, reply...))
	}
	return finds, inserts
}

// Modelled messages are well-formed, and every way restores them. Large replies get smaller by all of them,
// single documents only between gateways, with a dictionary.
func TestExchanges(t *testing.T) {
	finds, inserts := modelled(t, 200, 50)
	ones, _ := modelled(t, 200, 1)
	var requests, replies [][]byte
	for _, x := range append(append([][]byte{}, ones...), inserts...) {
		request, reply, err := splitExchange(x)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range [][]byte{request, reply} {
			var m wire.Msg
			if err := m.Parse(b); err != nil {
				t.Fatalf("%v: %x", err, b)
			}
		}
		requests, replies = append(requests, request[wire.HeaderLen:]), append(replies, reply[wire.HeaderLen:])
	}
	e := codec.New(codec.Options{})
	r := &rules{cost: plainCost, minSize: 64, minGain: 0.1}
	d := trained{values: dictionaryOf(t, requests), reply: dictionaryOf(t, replies)}
	for _, c := range WireCandidates() {
		s := c.sealer(e, d)
		left := map[string]float64{}
		for name, all := range map[string][][]byte{"finds": finds, "ones": ones, "inserts": inserts} {
			raw, stored := 0, 0
			for _, x := range all {
				sealed := s.seal(nil, x, r.worth)
				back, err := s.open(nil, sealed)
				if err != nil || !bytes.Equal(back, x) {
					t.Fatalf("%s, %s: %v", c, name, err)
				}
				raw, stored = raw+len(x), stored+len(sealed)
			}
			left[name] = float64(stored) / float64(raw)
		}
		t.Logf("%-16s %.2f of finds of 50, %.2f of finds of one, %.2f of inserts", c, left["finds"], left["ones"], left["inserts"])
		if left["finds"] > 0.6 || left["ones"] > 1 || left["inserts"] > 1 {
			t.Errorf("%s: %v", c, left)
		}
		if c.Dictionary && (left["ones"] > 0.5 || left["inserts"] > 0.5) {
			t.Errorf("%s: %v", c, left)
		}
	}
}

func dictionaryOf(t testing.TB, values [][]byte) *codec.Dict {
	t.Helper()
	d, err := dict.Train(values, dict.TrainOptions{Size: 8 << 10, Level: 3, Algorithm: dict.Cover})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestCandidatesOfTheWireHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range WireCandidates() {
		if seen[c.String()] || strings.HasPrefix(c.String(), pairPrefix) != (c.encoding == encodingPair) {
			t.Errorf("%q", c)
		}
		seen[c.String()] = true
	}
}

// Bytes that are not an exchange cause an error, without allocations for them.
func FuzzExchange(f *testing.F) {
	finds, _ := modelled(f, 2, 3)
	e := codec.New(codec.Options{})
	var all []*exchangeSealer
	for _, c := range WireCandidates() {
		if x, ok := c.sealer(e, trained{}).(*exchangeSealer); ok {
			all = append(all, x)
			f.Add(x.seal(nil, finds[0], func(raw, sealed int) bool { return true }))
		}
	}
	f.Add(finds[1])
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, x := range all {
			_, _ = x.open(nil, b)
			sealed := x.seal(nil, b, func(raw, sealed int) bool { return sealed < raw })
			if len(sealed) > len(b)+2*wire.MaxPairedHead {
				t.Fatalf("%d bytes became %d", len(b), len(sealed))
			}
		}
	})
}
