package plan

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/store/mongo"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// modelled returns exchanges of a collection: finds of batch documents, and inserts. No document is in two finds or in
// two inserts.
func modelled(t testing.TB, n, batch int) (finds, inserts [][]byte) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 3))
	m := &modeller{w: &mongoWalk{o: MongoOptions{Server: new(mongo.Server)}}, c: mongo.Collection{Database: "shop", Name: "orders"}}
	for i := range 2 * n * (batch + 1) { // the modeller uses a half of them
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

// learnHalf returns a link's histories after the first half of the exchanges, and the other half.
func learnHalf(all [][]byte) (trained, [][]byte) {
	p := &planner{Options: Options{Candidates: WireCandidates()}}
	return trained{link: p.history(all[:len(all)/2])}, all[len(all)/2:]
}

// Modelled messages are well-formed, and every way restores them. Large replies get smaller by all of them,
// single documents only between gateways, by the history of a link.
func TestExchanges(t *testing.T) {
	finds, inserts := modelled(t, 200, 50)
	ones, _ := modelled(t, 200, 1)
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
	}
	e := codec.New(codec.Options{})
	r := &rules{cost: plainCost, minSize: 64, minGain: 0.1}
	for _, c := range WireCandidates() {
		left := map[string]float64{}
		for name, all := range map[string][][]byte{"finds": finds, "ones": ones, "inserts": inserts} {
			d, test := learnHalf(all)
			s := c.sealer(e, d)
			raw, stored := 0, 0
			for _, x := range test {
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
		if isPair := c.encoding == encodingPair; isPair != (left["ones"] < 0.4) || isPair != (left["inserts"] < 0.4) {
			t.Errorf("%s: %v", c, left)
		}
	}
}

// The bytes of a pair are about those of a stream with history that has carried the same exchanges before: more for
// short messages, which have a zstd frame and entropy tables of their own in the model.
func TestPairIsLikeALink(t *testing.T) {
	e := codec.New(codec.Options{})
	for batch, most := range map[int]float64{1: 1.4, 10: 1.15, 50: 1.1} {
		finds, inserts := modelled(t, 200, batch)
		for name, all := range map[string][][]byte{"finds": finds, "inserts": inserts} {
			if name == "inserts" && batch > 1 {
				continue
			}
			d, test := learnHalf(all)
			s := WireCandidates()[3].sealer(e, d)
			model, link := 0, 0
			for _, x := range test {
				model += len(s.seal(nil, x, nil))
			}
			var streams [2]codec.StreamWriter
			for i := range streams {
				var err error
				if streams[i], err = e.StreamWriter(3, codec.MaxStreamWindow); err != nil {
					t.Fatal(err)
				}
				defer streams[i].Close()
			}
			for i, x := range all {
				request, reply, err := splitExchange(x)
				if err != nil {
					t.Fatal(err)
				}
				for direction, m := range [][]byte{request, reply} {
					const dataHeader, pieceHeader = 9, 9
					n := len(m)
					frame := append([]byte{byte(n >> 16), byte(n >> 8), byte(n), 0, 0, 0, 0, 0, 1}, m...)
					message := frame[dataHeader:]
					binary.LittleEndian.PutUint32(message[4+4*direction:], uint32(1000+i))
					if direction == 1 {
						binary.LittleEndian.PutUint32(message[4:], uint32(5000+3*i))
					}
					piece, err := streams[direction].Append(nil, frame)
					if err != nil {
						t.Fatal(err)
					}
					if i >= len(all)-len(test) {
						link += pieceHeader + len(piece)
					}
				}
			}
			ratio := float64(model) / float64(link)
			t.Logf("%s of %d: %d bytes an exchange, %d on a link: %.2f", name, batch, model/len(test), link/len(test), ratio)
			if ratio < 0.9 || ratio > most {
				t.Errorf("%s of %d: %.2f times the bytes on a link", name, batch, ratio)
			}
		}
	}
}

// Messages that do not get smaller, and those of groups without a history, are restored too; a damaged piece is
// detected.
func TestPieces(t *testing.T) {
	finds, _ := modelled(t, 2*trainAtLeast, 1)
	e := codec.New(codec.Options{})
	request, reply, err := splitExchange(finds[0])
	if err != nil {
		t.Fatal(err)
	}
	random := bytes.Clone(finds[0])
	for _, m := range [][]byte{random[:len(request)], random[len(request):]} {
		copy(m[wire.HeaderLen:], noise(rand.New(rand.NewPCG(1, 1)), len(m)))
	}
	known, _ := learnHalf(finds)
	few, _ := learnHalf(finds[:2*trainAtLeast-2])
	if few != (trained{}) || known.link.requests == nil || known.link.replies == nil {
		t.Fatalf("%+v, and of a few exchanges %+v", known, few)
	}
	for _, d := range []trained{known, few} {
		s := WireCandidates()[3].sealer(e, d)
		for _, x := range [][]byte{random, request, reply, finds[0], finds[len(finds)-1]} {
			sealed := s.seal([]byte("before"), x, nil)
			if !bytes.HasPrefix(sealed, []byte("before")) || len(sealed) > len("before")+len(x)+2*pieceHead {
				t.Fatalf("%d bytes became %d", len(x), len(sealed))
			}
			sealed = sealed[len("before"):]
			if back, err := s.open([]byte("before"), sealed); err != nil || string(back) != "before"+string(x) {
				t.Fatalf("%q: %v", back, err)
			}
			for at := range sealed {
				damaged := bytes.Clone(sealed)
				damaged[at] ^= 0x40
				if back, err := s.open(nil, damaged); err == nil && !bytes.Equal(back, x) {
					t.Fatalf("byte %d of %d: the damage is not detected", at, len(sealed))
				}
			}
		}
	}
	if _, err := WireCandidates()[3].sealer(e, trained{}).open(nil, []byte{20, 0, 0, 0x80}); !errors.Is(err, errExchange) {
		t.Error(err)
	}
}

// A history has at most as many bytes as a dictionary, and parts of several messages however long they are; and the
// numbers in its messages are not those of modelled ones.
func TestHistoryOfLongMessages(t *testing.T) {
	message := func(fill byte, n int) []byte {
		m := wire.AppendHeader(nil, wire.Header{RequestID: modelledReply, ResponseTo: modelledRequest, OpCode: wire.OpMsg})
		m = append(m, bytes.Repeat([]byte{fill}, n)...)
		wire.PutLength(m)
		return m
	}
	var messages [][]byte
	for i := range byte(20) {
		messages = append(messages, message('a'+i, 1+int(i)*100_000))
	}
	d := historyOf(messages)
	if d == nil || len(d.Content()) > codec.MaxDictLen || len(d.Content()) < codec.MaxDictLen/2 {
		t.Fatalf("%v", d)
	}
	var different []byte
	for i := range byte(20) {
		if bytes.IndexByte(d.Content(), 'a'+i) >= 0 {
			different = append(different, 'a'+i)
		}
	}
	if len(different) < 8 {
		t.Errorf("only messages of %q", different)
	}
	if head := messages[0][4:12]; bytes.Contains(d.Content(), head) {
		t.Error("numbers repeat")
	}
	if d := historyOf(nil); d != nil {
		t.Errorf("%d bytes of no messages", len(d.Content()))
	}
}

// A plan recommends a link for small documents if there may be a second gateway. It takes no dictionary.
func TestPlanOfSmallDocuments(t *testing.T) {
	finds, _ := modelled(t, 200, 1)
	for _, pair := range []bool{true, false} {
		c := NewCollector(CollectOptions{})
		for i, x := range finds {
			c.AddTo([]side{toLearn, toTest}[i%2], "shop.orders", "find", x, 1e6)
		}
		o := across(t)
		o.Candidates, o.Source.Medium, o.Source.Protocol, o.Pair = WireCandidates(), price.OnWire, "mongo", pair
		o.Source.Rates = Rates{Reads: 1e5}
		r, err := Make(t.Context(), c, o)
		if err != nil {
			t.Fatal(err)
		}
		g := r.Groups[0]
		if len(g.Options) != len(WireCandidates()) {
			t.Fatalf("%+v", g.Options)
		}
		alone, linked := g.Options[1], g.Options[3]
		if alone.Name != "zstd-3" || linked.Name != "pair zstd-3" || linked.After > alone.After/2 || linked.DictionaryBytes != 0 || linked.DictionaryCost != 0 {
			t.Errorf("%+v\n%+v", alone, linked)
		}
		if linked.Memory.From != memoryHistory || linked.Memory.Compress < 1<<codec.MaxStreamWindow {
			t.Errorf("%+v", linked.Memory)
		}
		text, files, err := r.Config(WriteOptions{Listen: "127.0.0.1:0", Upstream: "mongodb://far", Base: "x", Auto: true})
		if err != nil {
			t.Fatal(err)
		}
		chosen := g.Chosen() != nil && g.Chosen().Name == "pair zstd-3"
		if chosen != pair || strings.Contains(string(text), "has\n# 'peers: true' (docs/MONGODB.md") != pair || pair && !strings.Contains(string(text), "setting: zstd-3\n") {
			t.Errorf("pair %v: %+v\n%s", pair, g.Chosen(), text)
		}
		if strings.Contains(strings.ToLower(string(text)), "dictionar") || strings.Contains(string(text), "link:") || len(files) > 0 {
			t.Errorf("%d files, and\n%s", len(files), text)
		}
	}
}

// Documents of a reply with more than half of a collection, or of a collection with only one, are in no history.
func TestWholeCollectionsAreOnlyMeasured(t *testing.T) {
	for n, batches := range map[int][]int{1: {1}, 30: {16, 30}} {
		for _, batch := range batches {
			c := NewCollector(CollectOptions{})
			m := &modeller{w: &mongoWalk{c: c, o: MongoOptions{Server: new(mongo.Server), Batch: batch}, counted: true}, c: mongo.Collection{Database: "shop", Name: "orders"}, counts: mongo.Counts{Queries: 1000}}
			for i := range n {
				doc, err := bson.Marshal(bson.D{{Key: "_id", Value: i}})
				if err != nil {
					t.Fatal(err)
				}
				m.documents = append(m.documents, doc)
			}
			m.model()
			s := c.found()[0].sample
			if len(s.values) == 0 || slices.ContainsFunc(s.sides, func(of side) bool { return of != toTest }) {
				t.Errorf("%d of %d documents: %v", batch, n, s.sides)
			}
		}
	}
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
	finds, _ := modelled(f, 2*trainAtLeast, 3)
	e := codec.New(codec.Options{})
	d, _ := learnHalf(finds)
	var all []*exchangeSealer
	for _, c := range WireCandidates() {
		if x, ok := c.sealer(e, d).(*exchangeSealer); ok {
			all = append(all, x)
			f.Add(x.seal(nil, finds[0], func(raw, sealed int) bool { return true }))
		}
	}
	f.Add(finds[1])
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, x := range all {
			_, _ = x.open(nil, b)
			sealed := x.seal(nil, b, func(raw, sealed int) bool { return sealed < raw })
			if len(sealed) > len(b)+2*pieceHead {
				t.Fatalf("%d bytes became %d", len(b), len(sealed))
			}
			if back, err := x.open(nil, sealed); x.encoding == encodingPair && !bytes.Equal(sealed, b) && (err != nil || !bytes.Equal(back, b)) {
				t.Fatalf("%x became %x: %v", b, back, err)
			}
		}
	})
}
