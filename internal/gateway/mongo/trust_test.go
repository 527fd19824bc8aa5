package mongo

import (
	"crypto/rand"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/codec"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
	"github.com/cinch-layer/cinch/test/testenv"
)

// stranger is a client of a far gateway that says it is a gateway, and has not logged in.
type stranger struct {
	*rawClient
	to    frameWriter
	dicts int // that it was sent
}

func meetStranger(t *testing.T, far *served) *stranger {
	t.Helper()
	s := &stranger{rawClient: dialRaw(t, far.addr)}
	s.to.pairs = far.pairs
	s.run(plain, hello(pairName))
	s.in.pair = &frameReader{pairs: far.pairs}
	s.in.pair.on.Store(true)
	return s
}

// ask sends a command whose reply may be a frame, and notes what comes.
func (s *stranger) ask(doc bson.D) {
	s.t.Helper()
	s.last++
	b := opMsg(s.last, 0, doc)
	h, _ := wire.ParseHeader(b)
	frame, _ := s.to.frame(&outgoing{message: b, header: h, wants: true})
	s.write(frame)
	for {
		m, err := s.in.next()
		if err != nil {
			s.t.Fatal(err)
		}
		if !m.paired.Dictionary {
			s.in.pair.numbers = wire.Numbers{Request: m.header.RequestID, Answer: m.header.ResponseTo}
			return
		}
		s.dicts++
	}
}

// Dictionaries hold pieces of documents: who may not read a namespace gets none of it.
func TestStrangersGetNoDictionary(t *testing.T) {
	server := testenv.Mongod(t, testenv.MongodConfig{Args: []string{"--auth"}})
	create := bson.D{{Key: "createUser", Value: "SCRAM-SHA-256"}, {Key: "pwd", Value: "secret"}, {Key: "roles", Value: bson.A{"root"}}}
	if err := server.Client(t).Database("admin").RunCommand(t.Context(), create).Err(); err != nil {
		t.Fatal(err)
	}
	p := servePair(t, server.Addr, training)
	coll := connectAs(t, p.near.uri(), nil, "SCRAM-SHA-256", "secret").Database("shop").Collection("users")
	if _, err := coll.InsertMany(t.Context(), users(0, 1000)); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "a dictionary", func() bool {
		for i := range 40 {
			find(t, coll, 5, i*20)
		}
		return p.far.dictionaries() > 0
	})
	s := meetStranger(t, p.far)
	for range 600 {
		s.ask(command("find", "users"))
		s.ask(command("ping", 1, bson.E{Key: "collection", Value: "users"}))
		s.ask(command("listIndexes", "users"))
	}
	s.ask(command("find", "strangers"))
	for _, k := range p.far.cfg.Kinds.Status() {
		if strings.Contains(k.Method, "strangers") {
			t.Errorf("%s takes room among what is trained", k.Method)
		}
	}
	if s.dicts > 0 {
		t.Errorf("a client that has not logged in was sent %d dictionaries", s.dicts)
	}
	before := p.far.pairs.Dicts.Sent.Load() + p.far.pairs.Dicts.Named.Load()
	again := connectAs(t, p.near.uri(), nil, "SCRAM-SHA-256", "secret").Database("shop").Collection("users")
	for i := range 200 {
		find(t, again, 5, i*4)
	}
	if p.far.pairs.Dicts.Sent.Load()+p.far.pairs.Dicts.Named.Load() == before {
		t.Error("one that may read was sent none")
	}
}

func (s *served) dictionaries() int { return twins{s, s, nil}.dictionaries() / 2 }

// A dictionary may be as large as files of them are.
func TestPairLargestDictionary(t *testing.T) {
	content := make([]byte, codec.MaxDictLen)
	_, _ = rand.Read(content)
	d, err := codec.NewDict(content)
	if err != nil {
		t.Fatal(err)
	}
	server := standalone(t)
	far := serve(t, server.Addr, withDict(d), peers)
	near := serve(t, far.addr, withDict(d))
	raw := dialRaw(t, near.addr)
	raw.run(plain, hello())
	text := strings.Repeat("the quick brown fox ", 2000)
	for range 30 {
		if a := raw.run(plain, command("insert", "texts", bson.E{Key: "documents", Value: bson.A{bson.D{{Key: "text", Value: text}}}})); !a.ok() {
			t.Fatal(a.doc)
		}
	}
	if near.pairs.Dicts.Sent.Load() != 1 || far.pairs.Dicts.Received.Load() != 1 {
		t.Errorf("%d dictionaries sent, %d received", near.pairs.Dicts.Sent.Load(), far.pairs.Dicts.Received.Load())
	}
}

// A server that answers with something else than a reply is cut off.
func TestServerSendsNoReply(t *testing.T) {
	server := startLiar(t)
	s := serve(t, server.addr, withZstd)
	server.mu.Lock()
	server.next = opMsg(9, 0, bson.D{{Key: "ok", Value: 1}, {Key: "padding", Value: strings.Repeat("x", 4000)}})
	odd := wire.AppendHeader(nil, wire.Header{RequestID: 10, ResponseTo: 1, OpCode: wire.OpUpdate})
	wire.PutLength(odd)
	server.next = append(server.next, odd...)
	server.mu.Unlock()
	raw := dialRaw(t, s.addr)
	raw.send(plain, 0, hello())
	_, err := raw.tryReceive()
	for err == nil {
		_, err = raw.tryReceive()
	}
	if n := errorCount(s, "upstream_malformed"); n != 1 || strings.Contains(s.log.String(), "panic") {
		t.Errorf("counted %d times", n)
	}
}

// What vouches for a client: ok from a server that has asked for the right to read documents.
func TestReads(t *testing.T) {
	stages := func(names ...string) bson.E {
		list := bson.A{}
		for _, n := range names {
			list = append(list, bson.D{{Key: n, Value: bson.D{}}})
		}
		return bson.E{Key: "pipeline", Value: list}
	}
	for _, c := range []struct {
		name string
		doc  bson.D
		want bool
	}{
		{"find", command("find", "users"), true},
		{"a pipeline", command("aggregate", "users", stages("$match", "$group")), true},
		{"an empty pipeline", command("aggregate", "users", stages()), true},
		{"a change stream", command("aggregate", "users", stages("$changeStream")), true},
		{"statistics", command("aggregate", "users", stages("$collStats", "$match")), false},
		{"a pipeline of a database", command("aggregate", 1, stages("$match")), false},
		{"no pipeline", command("aggregate", "users"), false},
		{"a cursor", command("getMore", int64(1), bson.E{Key: "collection", Value: "users"}), false},
		{"a write", command("insert", "users"), false},
		{"what needs no login", command("ping", 1, bson.E{Key: "collection", Value: "users"}), false},
		{"indexes", command("listIndexes", "users"), false},
		{"two databases", command("find", "users", bson.E{Key: "$db", Value: "other"}), false},
	} {
		var r request
		r.message = opMsg(1, 0, c.doc)
		r.header, _ = wire.ParseHeader(r.message)
		if err := r.parse(); err != nil || r.reads != c.want {
			t.Errorf("%s: %v, %v", c.name, r.reads, err)
		}
	}
}
