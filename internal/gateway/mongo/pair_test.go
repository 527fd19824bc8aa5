package mongo

import (
	"math/rand/v2"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

var withDicts = []policy.MessageRule{{Name: "all", Setting: codec.Setting{Codec: codec.Zstd, Level: 3}, MinGain: 0.05, AutoDict: true}}

// training makes a gateway train dictionaries with few samples.
func training(c *Config) { trainingWith(c, 300) }

// trainingAsServed waits for as many samples as cinch serve does: strings in fewer than three samples get
// into no dictionary, so few samples make poor ones.
func trainingAsServed(c *Config) { trainingWith(c, 2000) }

func trainingWith(c *Config, samples int) {
	trainer := dictionary.NewTrainer(dictionary.TrainerOptions{NewEngine: func() *codec.Engine { return codec.New(codec.Options{}) }, Share: 1})
	c.Kinds = dictionary.NewMessages(dictionary.MessagesOptions{Trainer: trainer, Log: c.Log, MinSamples: samples, MaxDict: MaxTrained, MinSaving: 0.01, Interval: time.Hour, Poll: 50 * time.Millisecond})
}

func peers(c *Config) { c.Peers = true }

// twins is a pair of gateways with a tap between them.
type twins struct {
	near, far *served
	between   *tap
}

func servePair(t testing.TB, server string, change ...func(*Config)) twins {
	var p twins
	p.far = serve(t, server, withDicts, append(change, peers)...)
	p.between = startTap(t.(*testing.T), p.far.addr)
	p.near = serve(t, p.between.addr, withDicts, change...)
	return p
}

// traffic holds the sizes of messages on a link, in bytes.
type traffic struct{ insert, ack, one, hundred float64 }

// mix returns the ratio of compressed to plain bytes for a load of which nine tenths, when plain, are replies
// of 100 documents, and one tenth is inserts of one document with their acknowledgements.
func (t traffic) mix(plain traffic) float64 {
	inserts := plain.hundred / 9 / (plain.insert + plain.ack)
	return (t.hundred + inserts*(t.insert+t.ack)) / (plain.hundred + inserts*(plain.insert+plain.ack))
}

// measureTraffic measures operations on new documents.
func measureTraffic(t *testing.T, link *tap, uri string, seed uint64, compressors ...string) (sizes traffic) {
	const rounds = 50
	r := rand.New(rand.NewPCG(seed, 77))
	coll := connect(t, uri, compressors...).Database("shop").Collection("people")
	measure := func(op func(i int)) (up, down float64) {
		op(0) // opens the connection
		link.take()
		for i := range rounds {
			op(i)
		}
		requests, replies := link.take()
		for _, f := range requests {
			up += float64(len(f.bytes))
		}
		for _, f := range replies {
			down += float64(len(f.bytes))
		}
		return up / rounds, down / rounds
	}
	sizes.insert, sizes.ack = measure(func(int) {
		if _, err := coll.InsertOne(t.Context(), person(r)); err != nil {
			t.Fatal(err)
		}
	})
	_, sizes.one = measure(func(i int) { find(t, coll, 1, i*31%2000) })
	_, sizes.hundred = measure(func(i int) { find(t, coll, 100, i*37%2000) })
	return sizes
}

// warm sends documents until both gateways have trained a dictionary with them and got that of the other. It
// then drops the documents.
func (p twins) warm(t *testing.T, server *mongotest.Server, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 78))
	if _, err := server.Client(t).Database("shop").Collection("people").InsertMany(t.Context(), people(r, 3000)); err != nil {
		t.Fatal(err)
	}
	coll := connect(t, p.near.uri()).Database("shop").Collection("people")
	for round := 0; ; round++ {
		for i := range 100 {
			if _, err := coll.InsertOne(t.Context(), person(r)); err != nil {
				t.Fatal(err)
			}
			find(t, coll, 1, r.IntN(3000))
			if i%10 == 9 {
				find(t, coll, i, r.IntN(2900))
			}
		}
		if p.near.dictionaries() > 0 && p.far.dictionaries() > 0 && p.exchanged() {
			if err := coll.Drop(t.Context()); err != nil {
				t.Fatal(err)
			}
			return
		}
		if round == 5000 { // on a busy machine training takes long
			t.Fatal("no dictionaries")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestPairSizes compares the bytes on the link, headers included, with those of a driver without gateways, on
// documents that no dictionary was trained with.
func TestPairSizes(t *testing.T) {
	testenv.Full(t)
	if testenv.RaceDetector {
		t.Skip("too slow, and it is about sizes only")
	}
	server := standalone(t)
	p := servePair(t, server.Addr, trainingAsServed)
	p.warm(t, server, 1)
	if _, err := server.Client(t).Database("shop").Collection("people").InsertMany(t.Context(), people(rand.New(rand.NewPCG(2, 0)), 2200)); err != nil {
		t.Fatal(err)
	}
	alone := startTap(t, server.Addr)
	uri := "mongodb://" + alone.addr + "/?directConnection=true"
	plain, zstd := measureTraffic(t, alone, uri, 3), measureTraffic(t, alone, uri, 4, "zstd")
	paired := measureTraffic(t, p.between, p.near.uri(), 5)
	t.Logf("plain %.0f, zstd %.0f, pair %.0f; mix %.3f and %.3f", plain, zstd, paired, zstd.mix(plain), paired.mix(plain))
	for _, c := range []struct {
		what        string
		plain, pair float64
		want        float64
	}{
		{"a reply of 100 documents", plain.hundred, paired.hundred, 3.9},
		{"a reply of one document", plain.one, paired.one, 3.3},
		{"an insert of one document", plain.insert, paired.insert, 3.5},
	} {
		if got := c.plain / c.pair; got < c.want {
			t.Errorf("%s is %.2f times as small, not %.1f", c.what, got, c.want)
		}
	}
	if got := paired.mix(plain); got > 0.26 {
		t.Errorf("the mix takes %.3f of its plain bytes", got)
	}
}

// exchanged reports whether each gateway has received a dictionary.
func (p twins) exchanged() bool {
	return p.near.pairs.Dicts.Received.Load() > 0 && p.far.pairs.Dicts.Received.Load() > 0
}

func (p twins) dictionaries() (n int) {
	for _, g := range []*served{p.near, p.far} {
		for _, s := range g.cfg.Kinds.Status() {
			if s.Dict != nil {
				n++
			}
		}
	}
	return n
}

func find(t testing.TB, coll *mongo.Collection, n, from int) {
	t.Helper()
	cursor, err := coll.Find(t.Context(), bson.D{}, options.Find().SetLimit(int64(n)).SetSkip(int64(from)).SetBatchSize(int32(n+1)))
	if err != nil {
		t.Fatal(err)
	}
	var all []bson.Raw
	if err := cursor.All(t.Context(), &all); err != nil || len(all) != n {
		t.Fatal(len(all), err)
	}
}

// Messages of 100 KB gain from a dictionary too, though less than small ones.
func TestPairDictionaryForLongMessages(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("too slow, and it is about sizes only")
	}
	r, texts := rand.New(rand.NewPCG(1, 1)), phrases()
	var samples [][]byte
	for range codectest.Amount(300, 300, 1000) {
		b, _ := bson.Marshal(page(r, texts))
		samples = append(samples, b[:excerpt])
	}
	d, err := dict.Train(samples, dict.TrainOptions{Size: MaxTrained, Level: 3})
	if err != nil {
		t.Fatal(err)
	}
	server := standalone(t)
	insert := func(name string, rules []policy.MessageRule) (bytes int) {
		far := serve(t, server.Addr, rules, peers)
		between := startTap(t, far.addr)
		raw := dialRaw(t, serve(t, between.addr, rules).addr)
		raw.run(plain, hello())
		r := rand.New(rand.NewPCG(2, 2))
		for range 3 {
			ten := bson.A{}
			for range 10 {
				ten = append(ten, page(r, texts))
			}
			between.take()
			if a := raw.run(plain, command("insert", name, bson.E{Key: "documents", Value: ten})); !a.ok() {
				t.Fatal(a.doc)
			}
		}
		requests, _ := between.take()
		return len(requests[len(requests)-1].bytes)
	}
	with, without := insert("with", withDict(d)), insert("without", withZstd)
	t.Logf("%d bytes with a dictionary, %d without", with, without)
	if float64(with) > 0.9*float64(without) {
		t.Error("the dictionary was not used")
	}
}
