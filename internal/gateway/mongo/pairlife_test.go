package mongo

import (
	"bytes"
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
	"github.com/cinch-layer/cinch/test/testenv"
)

// dictOf returns a dictionary trained with documents of people.
func dictOf(t testing.TB, seed uint64) *codec.Dict {
	t.Helper()
	var content []byte
	r := rand.New(rand.NewPCG(seed, 3))
	for range 12 {
		b, err := bson.Marshal(person(r))
		if err != nil {
			t.Fatal(err)
		}
		content = append(content, b...)
	}
	d, err := codec.NewDict(content)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func withDict(d *codec.Dict) []policy.MessageRule {
	return []policy.MessageRule{{Name: "all", Setting: codec.Setting{Codec: codec.Zstd, Level: 3}, Dict: d}}
}

// came returns the compressors of all frames except those with dictionaries.
func came(frames []frame) (list []wire.CompressorID) {
	for _, f := range frames {
		if f.came != wire.BetweenGateways || f.bytes[3]&0x40 == 0 {
			list = append(list, f.came)
		}
	}
	return list
}

func TestPairNegotiation(t *testing.T) {
	server, atServer := between(t)
	_ = server
	peer := serve(t, atServer.addr, withDicts, peers)
	stranger := serve(t, atServer.addr, withDicts)
	link := startTap(t, peer.addr)
	near := serve(t, link.addr, withDicts)
	for _, c := range []struct {
		name string
		to   string
		want wire.CompressorID
	}{
		{"a gateway with peers", peer.addr, wire.BetweenGateways},
		{"a gateway without", stranger.addr, wire.Zstd},
		{"mongod", atServer.addr, wire.Zstd},
		{"a gateway with peers again", peer.addr, wire.BetweenGateways},
	} {
		t.Run(c.name, func(t *testing.T) {
			link.lead(c.to)
			link.take()
			raw := dialRaw(t, near.addr)
			if a := raw.run(plain, hello("cinch", "snappy", "cinch-0011223344556677")); !slices.Equal(a.compression(), []string{"snappy"}) {
				t.Errorf("the client sees %v", a.compression())
			}
			a := raw.run(plain, hello())
			if _, err := a.doc.LookupErr(dictionariesKey); err == nil {
				t.Error("the client sees what is between gateways")
			}
			requests, replies := link.take()
			if got := append(came(requests), came(replies)...); slices.Contains(got, wire.BetweenGateways) || !bytes.Contains(requests[0].bytes, []byte("cinch\x00")) {
				t.Errorf("handshakes went as %v", got)
			}
			atServer.take()
			a = raw.run(wire.Snappy, command("find", "users"))
			if a.came != wire.Snappy || !a.ok() {
				t.Errorf("the client's reply came as %d: %v", a.came, a.doc)
			}
			requests, replies = link.take()
			if got := append(came(requests), came(replies)...); !slices.Equal(got, []wire.CompressorID{c.want, c.want}) {
				t.Errorf("a find and its reply went as %v", got)
			}
			requests, replies = atServer.take()
			if c.want == wire.BetweenGateways && (requests[0].came != plain || replies[0].came != plain) {
				t.Error("what the far gateway exchanges with the server is compressed")
			}
		})
	}
}

// Requests of all kinds pass a pair to the server byte for byte, and so do the replies.
func TestPairIsExact(t *testing.T) {
	server, atServer := between(t)
	_ = server
	far := serve(t, atServer.addr, withDict(dictOf(t, 1)), peers)
	link := startTap(t, far.addr)
	near := serve(t, link.addr, withDict(dictOf(t, 2)))
	raw := dialRaw(t, near.addr)
	raw.run(plain, hello())
	session := bson.E{Key: "lsid", Value: bson.D{{Key: "id", Value: bson.Binary{Subtype: 4, Data: []byte("0123456789abcdef")}}}}
	other := bson.E{Key: "lsid", Value: bson.D{{Key: "id", Value: bson.Binary{Subtype: 4, Data: []byte("fedcba9876543210")}}}}
	big := strings.Repeat("0123456789abcdef", 47_000_000/16)
	noise := make([]byte, 300_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	id := int32(1 << 30)
	for i, m := range []struct {
		flags uint32
		doc   bson.D
	}{
		{0, command("ping", 1)},
		{0, command("find", "users", session)},
		{0, command("find", "users", session)},
		{0, command("find", "users", other, bson.E{Key: "limit", Value: 1})},
		{0, command("find", "users", session, bson.E{Key: "limit", Value: 1})},
		{uint32(wire.ChecksumPresent), command("find", "users", session)},
		{0, command("insert", "blobs", bson.E{Key: "documents", Value: bson.A{bson.D{{Key: "v", Value: noise}}}}, session)},
		{0, command("find", "blobs")},
		{0, command("insert", "blobs", bson.E{Key: "documents", Value: bson.A{bson.D{{Key: "v", Value: big[:16_000_000]}}, bson.D{{Key: "v", Value: big[:16_000_000]}}, bson.D{{Key: "v", Value: big[:14_000_000]}}}})},
		{0, command("saslStart", 1)},
		{0, command("nonsense", strings.Repeat("x", 1000))},
		{uint32(wire.MoreToCome), command("insert", "w0", bson.E{Key: "documents", Value: bson.A{bson.D{{Key: "a", Value: 1}}}}, bson.E{Key: "writeConcern", Value: bson.D{{Key: "w", Value: 0}}})},
		{0, command("ping", 1)},
	} {
		atServer.take()
		link.take()
		id = id*7 + 3
		sent := opMsg(id, m.flags, m.doc)
		_ = raw.conn.SetDeadline(time.Now().Add(2 * time.Minute))
		raw.write(sent)
		var got []byte
		if m.flags&uint32(wire.MoreToCome) == 0 {
			in, err := raw.in.next()
			if err != nil {
				t.Fatalf("%d: %v", i, err)
			}
			got = bytes.Clone(in.received)
		} else {
			testenv.Eventually(t, "the server gets it", func() bool {
				atServer.mu.Lock()
				defer atServer.mu.Unlock()
				return len(atServer.requests) > 0
			})
		}
		requests, replies := atServer.take()
		if len(requests) != 1 || !bytes.Equal(requests[0].bytes, sent) {
			t.Errorf("%d: the server got %d messages, not the %d bytes that were sent", i, len(requests), len(sent))
		}
		if got != nil && (len(replies) != 1 || !bytes.Equal(replies[0].bytes, got)) {
			t.Errorf("%d: the client got something else than the server sent", i)
		}
		between, _ := link.take()
		if i > 0 && m.doc[0].Key != "saslStart" && came(between)[0] != wire.BetweenGateways {
			t.Errorf("%d went as %v", i, came(between))
		}
	}
}

func TestPairDriver(t *testing.T) {
	server := replicaSet(t)
	p := servePair(t, server.Addr, training)
	for _, c := range []struct{ options, compressor string }{{"?replicaSet=rs0", "zstd"}, {"?directConnection=true", ""}, {"", "snappy"}} {
		t.Run("as "+c.options+c.compressor, func(t *testing.T) {
			var compressors []string
			if c.compressor != "" {
				compressors = append(compressors, c.compressor)
			}
			p.between.take()
			client := connect(t, "mongodb://"+p.near.addr+"/"+c.options, compressors...)
			exercise(t, client)
			transactAndWatch(t, client)
			requests, replies := p.between.take()
			if !slices.Contains(came(requests), wire.BetweenGateways) || !slices.Contains(came(replies), wire.BetweenGateways) {
				t.Error("the driver went around the pair")
			}
		})
	}
}

// The far gateway, the near one, or both are load balancers.
func TestPairBalanced(t *testing.T) {
	server := replicaSet(t)
	members := func(addr string) func(*Config) {
		return func(c *Config) { c.Members = []endpoint.Upstream{{Network: "tcp", Address: addr, Host: "127.0.0.1"}} }
	}
	for _, c := range []struct {
		name      string
		far, near bool
	}{{"far", true, false}, {"near", false, true}, {"both", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			far := []func(*Config){peers}
			if c.far {
				far = append(far, members(server.Addr))
			}
			f := serve(t, server.Addr, withDicts, far...)
			link := startTap(t, f.addr)
			var near []func(*Config)
			if c.near {
				near = append(near, members(link.addr))
			}
			n := serve(t, link.addr, withDicts, near...)
			transactAndWatch(t, connect(t, "mongodb://"+n.addr+"/?loadBalanced=true"))
			if requests, _ := link.take(); !slices.Contains(came(requests), wire.BetweenGateways) {
				t.Error("nothing went in frames")
			}
		})
	}
}

func TestPairTLS(t *testing.T) {
	ca := testenv.NewAuthority(t)
	server := standalone(t)
	far := serve(t, server.Addr, withDicts, peers, func(c *Config) { c.TLS = ca.Issue(t, "server").TLS(t) })
	near := serve(t, far.addr, withDicts, func(c *Config) { c.Upstream.TLS = &tls.Config{RootCAs: ca.Pool, ServerName: "127.0.0.1"} })
	exercise(t, connect(t, near.uri()))
	if far.pairs.Messages.Opened.Load() == 0 || near.pairs.Messages.Opened.Load() == 0 {
		t.Error("nothing went in frames")
	}
}

// After a restart of either gateway, and with the server in place of the far one, drivers go on with a new
// connection, and dictionaries are available again.
func TestPairRestarts(t *testing.T) {
	server := standalone(t)
	one, two := dictOf(t, 1), dictOf(t, 2)
	far := serve(t, server.Addr, withDict(one), peers)
	link := startTap(t, far.addr)
	near := serve(t, link.addr, withDict(two))
	r := rand.New(rand.NewPCG(9, 9))
	step := func(what string, n *served, dicts bool) {
		t.Helper()
		link.take()
		coll := connect(t, n.uri()).Database("shop").Collection("people")
		for range 30 {
			if _, err := coll.InsertOne(t.Context(), person(r)); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			find(t, coll, 1, 0)
		}
		requests, replies := link.take()
		for _, frames := range [][]frame{requests, replies} {
			last := frames[len(frames)-1]
			if got := last.came == wire.BetweenGateways && last.bytes[4]&0x0f != 0; got != dicts {
				t.Errorf("%s: the last message went as %d, % x", what, last.came, last.bytes[:5])
			}
		}
	}
	step("at the start", near, true)
	link.lead(serve(t, server.Addr, withDict(one), peers).addr)
	step("with another far gateway", near, true)
	link.lead(server.Addr)
	step("with mongod in its place", near, false)
	link.lead(far.addr)
	step("with the first one again", near, true)
	if sent, named := near.pairs.Dicts.Sent.Load(), near.pairs.Dicts.Named.Load(); sent != 2 || named == 0 {
		t.Errorf("the near gateway has sent its dictionary %d times to two gateways, and named it %d times", sent, named)
	}
	step("with another near gateway", serve(t, link.addr, withDict(two)), true)
}

// A dictionary replaces another while connections stay open.
func TestPairRollsOver(t *testing.T) {
	server := standalone(t)
	far := serve(t, server.Addr, withDict(dictOf(t, 1)), peers)
	link := startTap(t, far.addr)
	near := serve(t, link.addr, withDict(dictOf(t, 1)))
	coll := connect(t, near.uri()).Database("shop").Collection("people")
	r := rand.New(rand.NewPCG(9, 9))
	for seed := range uint64(20) { // more than the slots
		for _, g := range []*served{near, far} {
			p, err := policy.NewMessages(withDict(dictOf(t, seed)))
			if err != nil {
				t.Fatal(err)
			}
			g.SetPolicy(p)
		}
		for range 15 {
			want := person(r)
			if _, err := coll.InsertOne(t.Context(), want); err != nil {
				t.Fatal(err)
			}
			got, err := coll.FindOne(t.Context(), bson.D{{Key: "_id", Value: want[0].Value}}).Raw()
			if b, _ := bson.Marshal(want); err != nil || !bytes.Equal(got, b) {
				t.Fatalf("%v, %v", got, err)
			}
		}
	}
	if n := near.pairs.Dicts.Sent.Load(); n < 20 {
		t.Errorf("%d dictionaries were sent", n)
	}
	if n := far.pairs.shelf.Bytes(); n > 20*8<<10 {
		t.Errorf("%d bytes are held", n)
	}
}

// With a raw rule on either side messages are not compressed.
func TestPairRules(t *testing.T) {
	server, _ := between(t)
	d := dictOf(t, 1)
	rule := func(direction policy.Direction, raw bool) policy.MessageRule {
		r := withDict(d)[0]
		r.Name, r.Direction = direction.String(), direction
		if raw {
			r = policy.MessageRule{Name: "raw", Space: "shop.users", Direction: direction}
		}
		return r
	}
	for _, c := range []struct {
		name                string
		nearRules, farRules []policy.MessageRule
		request, reply      bool // whether they are compressed
	}{
		{"nothing raw", withDict(d), withDict(d), true, true},
		{"requests raw near", []policy.MessageRule{rule(policy.Request, true), rule(policy.Reply, false)}, withDict(d), false, true},
		{"replies raw near", []policy.MessageRule{rule(policy.Reply, true), rule(policy.Request, false)}, withDict(d), true, false},
		{"all raw near", []policy.MessageRule{rule(policy.BothDirections, true), rule(policy.BothDirections, false)}, withDict(d), false, false},
		{"replies raw far", withDict(d), []policy.MessageRule{rule(policy.Reply, true)}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			far := serve(t, server.Addr, c.farRules, peers)
			link := startTap(t, far.addr)
			near := serve(t, link.addr, c.nearRules)
			raw := dialRaw(t, near.addr)
			raw.run(plain, hello())
			filter := bson.E{Key: "comment", Value: strings.Repeat("something to compress ", 20)}
			raw.run(plain, command("find", "users", filter))
			link.take()
			raw.run(plain, command("find", "users", filter))
			requests, replies := link.take()
			request, reply := requests[len(requests)-1], replies[len(replies)-1]
			if got := compressed(request); got != c.request {
				t.Errorf("the request is compressed: %v", got)
			}
			if got := compressed(reply); got != c.reply {
				t.Errorf("the reply is compressed: %v", got)
			}
		})
	}
}

func compressed(f frame) bool { return f.came == wire.BetweenGateways && f.bytes[4]&0x10 == 0 }

// Samples count the bytes on the link, by namespace, command and direction.
func TestSample(t *testing.T) {
	server, _ := between(t)
	kinds := dictionary.NewMessages(dictionary.MessagesOptions{})
	s := serve(t, server.Addr, withZstd, func(c *Config) { c.Kinds, c.Sample = kinds, true })
	raw := dialRaw(t, s.addr)
	raw.run(plain, hello())
	raw.run(plain, command("saslStart", 1))
	requestBytes, replyBytes := 0, 0
	for range 10 {
		requestBytes += len(opMsg(1, 0, command("find", "users")))
		a := raw.run(plain, command("find", "users"))
		replyBytes += a.size
	}
	got := map[string]dictionary.KindStatus{}
	for _, k := range kinds.Status() {
		got[k.Method+" "+k.Direction] = k
	}
	if len(got) != 2 {
		t.Errorf("measured %v", got)
	}
	if k := got["shop.users find request"]; k.Messages != 10 || int(k.Bytes) != requestBytes || k.SampleMessages != 10 {
		t.Errorf("requests: %+v, want %d bytes", k, requestBytes)
	}
	if k := got["shop.users find reply"]; k.Messages != 10 || int(k.Bytes) != replyBytes {
		t.Errorf("replies: %+v, want %d bytes", k, replyBytes)
	}
}

// FuzzPairedMessages sends messages from one end to the other, with and without a dictionary.
func FuzzPairedMessages(f *testing.F) {
	shared := pairsOf(f, withDict(dictOf(f, 1)))
	rule := shared.policy.Load().Rules()[0]
	lsid := append(append([]byte("abc"), lsidHead...), "0123456789abcdef..."...)
	f.Add([]byte("hello"), lsid, lsid, int32(5))
	f.Add(lsid, lsid[:len(lsid)-10], []byte{}, int32(-1))
	f.Fuzz(func(t *testing.T, a, b, c []byte, id int32) {
		sp, in := frameWriter{pairs: shared}, frameReader{pairs: shared}
		defer in.free()
		r := &reader{frames: &in}
		in.on.Store(true)
		r.Ctx = context.Background()
		left, right := net.Pipe()
		defer left.Close()
		r.Conn = right
		defer r.Free()
		sp.told.Store(&[]hashPrefix{})
		for i, body := range [][]byte{a, b, c, a, b} {
			h := wire.Header{Length: wire.HeaderLen + len(body), RequestID: id * int32(i), ResponseTo: id - int32(i), OpCode: wire.OpMsg}
			message := append(wire.AppendHeader(nil, h), body...)
			o := outgoing{message: bytes.Clone(message), header: h, rule: rule, wants: i%2 == 0}
			sp.slots[1].owed = 1 << 20 // sent with the first one
			out, _ := sp.frame(&o)
			if !bytes.Equal(o.message, message) {
				t.Fatal("framing has changed the message")
			}
			go func() { _, _ = left.Write(out) }()
			for {
				m, err := r.next()
				if err != nil {
					t.Fatal(err)
				}
				if m.paired.Dictionary {
					if err := in.take(m.received, &m.paired); err != nil {
						t.Fatal(err)
					}
					continue
				}
				got, err := in.open(&m)
				if err != nil || !bytes.Equal(got, message) || m.paired.Wants != o.wants {
					t.Fatalf("%x became %x, %v", message, got, err)
				}
				break
			}
		}
	})
}

func errorCount(s *served, class string) uint64 { return s.stats.Snapshot().Errors[class] }

// Streams of hellos stay plain between gateways. Each batch of an exhaust cursor comes in a frame, since the
// request for all of them allowed that.
func TestPairStreams(t *testing.T) {
	_, atServer := between(t)
	far := serve(t, atServer.addr, withDicts, peers)
	link := startTap(t, far.addr)
	near := serve(t, link.addr, withDicts)
	raw := dialRaw(t, near.addr)
	version := raw.run(plain, hello()).doc.Lookup("topologyVersion").Document()
	link.take()
	id := raw.send(plain, uint32(wire.ExhaustAllowed), append(hello(), bson.E{Key: "topologyVersion", Value: version}, bson.E{Key: "maxAwaitTimeMS", Value: 200}))
	for range 3 {
		a := raw.receive()
		if a.header.ResponseTo != id || a.flags&uint32(wire.MoreToCome) == 0 || len(a.compression()) > 0 {
			t.Fatalf("in the stream of hellos: %+v", a)
		}
		id = a.header.RequestID
	}
	requests, replies := link.take()
	if all := append(came(requests), came(replies)...); slices.Contains(all, wire.BetweenGateways) {
		t.Errorf("hellos went as %v", all)
	}
	_ = raw.conn.Close() // the stream goes on until then
	for _, s := range []*served{near, far} {
		testenv.Eventually(t, "it is closed", func() bool { return s.stats.Snapshot().Connections.Open == 0 })
	}
	raw = dialRaw(t, near.addr)
	raw.run(plain, hello())
	cursor := raw.run(plain, command("find", "users", bson.E{Key: "batchSize", Value: 2})).doc.Lookup("cursor", "id").Int64()
	link.take()
	id = raw.send(plain, uint32(wire.ExhaustAllowed), command("getMore", cursor, bson.E{Key: "collection", Value: "users"}, bson.E{Key: "batchSize", Value: 10}))
	got := 2
	for more := true; more; {
		a := raw.receive()
		if a.header.ResponseTo != id {
			t.Fatalf("in the stream of batches: %+v", a)
		}
		batch, _ := a.doc.Lookup("cursor", "nextBatch").Array().Values()
		got += len(batch)
		id, more = a.header.RequestID, a.flags&uint32(wire.MoreToCome) != 0
	}
	_, replies = link.take()
	if list := came(replies); got != 100 || len(list) < 10 || slices.ContainsFunc(list, func(id wire.CompressorID) bool { return id != wire.BetweenGateways }) {
		t.Errorf("%d documents came, in %v", got, list)
	}
}
