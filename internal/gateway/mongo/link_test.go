package mongo

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
	"github.com/cinch-layer/cinch/internal/wire/peer"
	"github.com/cinch-layer/cinch/test/testenv"
)

// linking lets a gateway open links.
func linking(c *Config) { c.Links = &link.Config{Setting: codec.Setting{Codec: codec.Zstd, Level: 3}} }

// peers lets a gateway accept links, and open some.
func peers(c *Config) {
	linking(c)
	c.Peers = true
}

// relay forwards connections to a server, and counts the bytes.
type relay struct {
	addr     string
	up, down atomic.Int64 // bytes of requests and of replies
	links    atomic.Int64 // connections that began with a link's hello

	mu     sync.Mutex
	server string
	conns  []net.Conn
	damage func(p []byte, at int64) // may change what the server sends, at an offset of a connection; nil: nothing is changed
}

func startRelay(t testing.TB, server string) *relay {
	t.Helper()
	l := listen(t)
	r := &relay{addr: l.Addr().String(), server: server}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.serve(c)
		}
	}()
	return r
}

func (r *relay) serve(c net.Conn) {
	defer c.Close()
	r.mu.Lock()
	server := r.server
	r.mu.Unlock()
	up, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer up.Close()
	r.mu.Lock()
	r.conns = append(r.conns, c, up)
	r.mu.Unlock()
	go r.copy(up, c, &r.up)
	r.copy(c, up, &r.down)
}

func (r *relay) copy(dst, src net.Conn, count *atomic.Int64) {
	buf := make([]byte, 64<<10)
	for at := int64(0); ; {
		n, err := src.Read(buf)
		if at == 0 && n > 3 && count == &r.up && peer.BeginsHello(buf[:n]) {
			r.links.Add(1)
		}
		r.mu.Lock()
		damage := r.damage
		r.mu.Unlock()
		if damage != nil && count == &r.down {
			damage(buf[:n], at)
		}
		at += int64(n)
		count.Add(int64(n))
		if _, bad := dst.Write(buf[:n]); err != nil || bad != nil {
			_ = dst.(*net.TCPConn).CloseWrite()
			return
		}
	}
}

// lead closes all connections, and forwards new ones to another server.
func (r *relay) lead(server string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		_ = c.Close()
	}
	r.server, r.conns = server, nil
}

// twins is a pair of gateways with a relay between them.
type twins struct {
	near, far *served
	between   *relay
}

func servePair(t testing.TB, server string, change ...func(*Config)) twins {
	t.Helper()
	var p twins
	p.far = serve(t, server, withZstd, append(change, peers)...)
	p.between = startRelay(t, p.far.addr)
	p.near = serve(t, p.between.addr, withZstd, append(change, linking)...)
	return p
}

// streams returns how many connections of clients go over links.
func (s *served) streams() (n int) {
	s.near.mu.Lock()
	defer s.near.mu.Unlock()
	for _, p := range s.near.pools {
		n += p.users
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

// TestLinkSizes compares the bytes between two gateways, headers included, with those of a driver without gateways.
func TestLinkSizes(t *testing.T) {
	server := standalone(t)
	if _, err := server.Client(t).Database("shop").Collection("people").InsertMany(t.Context(), people(rand.New(rand.NewPCG(2, 0)), 2200)); err != nil {
		t.Fatal(err)
	}
	measure := func(r *relay, uri string, seed uint64, compressors ...string) (insert, one, hundred float64) {
		const rounds = 50
		random := rand.New(rand.NewPCG(seed, 77))
		coll := connect(t, uri, compressors...).Database("shop").Collection("people")
		run := func(op func(i int)) float64 {
			for i := range 20 { // opens connections, and fills the history
				op(i + 1000)
			}
			before := r.up.Load() + r.down.Load()
			for i := range rounds {
				op(i)
			}
			return float64(r.up.Load()+r.down.Load()-before) / rounds
		}
		insert = run(func(int) {
			if _, err := coll.InsertOne(t.Context(), person(random)); err != nil {
				t.Fatal(err)
			}
		})
		one = run(func(i int) { find(t, coll, 1, i*31%2000) })
		return insert, one, run(func(i int) { find(t, coll, 100, i*37%2000) })
	}
	alone, p := startRelay(t, server.Addr), servePair(t, server.Addr)
	uri := "mongodb://" + alone.addr + "/?directConnection=true"
	insert, one, hundred := measure(alone, uri, 3)
	zstdInsert, zstdOne, zstdHundred := measure(alone, uri, 4, "zstd")
	linkInsert, linkOne, linkHundred := measure(p.between, p.near.uri(), 5)
	t.Logf("insert %.0f, zstd %.0f, link %.0f; find of one %.0f, %.0f, %.0f; of 100 %.0f, %.0f, %.0f", insert, zstdInsert, linkInsert, one, zstdOne, linkOne, hundred, zstdHundred, linkHundred)
	for _, c := range []struct {
		what        string
		plain, link float64
		want        float64
	}{
		{"an insert of one document", insert, linkInsert, 3},
		{"a find of one document", one, linkOne, 3.5},
		{"a find of 100 documents", hundred, linkHundred, 9},
	} {
		if got := c.plain / c.link; got < c.want {
			t.Errorf("%s is %.2f times as small, not %.1f", c.what, got, c.want)
		}
	}
}

// The near gateway finds out whether its upstream is a gateway that accepts links. Its clients see nothing of that.
func TestLinkNegotiation(t *testing.T) {
	_, atServer := between(t)
	far := serve(t, atServer.addr, withZstd, peers)
	stranger := serve(t, atServer.addr, withZstd)
	for _, c := range []struct {
		name  string
		to    string
		links bool
		came  wire.CompressorID // as the server gets a request
	}{
		{"a gateway with peers", far.addr, true, plain},
		{"a gateway without", stranger.addr, false, wire.Zstd},
		{"mongod", atServer.addr, false, wire.Zstd},
	} {
		t.Run(c.name, func(t *testing.T) {
			relay := startRelay(t, c.to)
			near := serve(t, relay.addr, withZstd, linking, func(c *Config) { c.Link = PerAddress })
			raw := dialRaw(t, near.addr)
			if a := raw.run(plain, hello(pairName, "snappy")); !slices.Equal(a.compression(), []string{"snappy"}) {
				t.Errorf("the client sees %v", a.compression())
			}
			atServer.take()
			a := raw.run(wire.Snappy, command("find", "users"))
			if a.came != wire.Snappy || !a.ok() {
				t.Errorf("the client's reply came as %d: %v", a.came, a.doc)
			}
			requests, _ := atServer.take()
			if len(requests) != 1 || requests[0].came != c.came {
				t.Errorf("the server got %d requests, as %d", len(requests), requests[0].came)
			}
			if links := relay.links.Load() > 0; links != c.links || (near.streams() == 1) != c.links {
				t.Errorf("%d links, %d streams", relay.links.Load(), near.streams())
			}
			said := near.log.Count("accepts links") + near.log.Count("accepts no links")
			if said != 1 {
				t.Errorf("%d lines in the log: %s", said, near.log)
			}
		})
	}
}

// Without a configured link nothing is logged about a server that is not a gateway. With history: none no link is
// opened.
func TestLinksByDefault(t *testing.T) {
	server := standalone(t)
	quiet := serve(t, server.Addr, withZstd, linking)
	dialRaw(t, quiet.addr).run(plain, hello())
	if n := quiet.log.Count("links"); n != 0 {
		t.Errorf("logged: %s", quiet.log)
	}
	far := serve(t, server.Addr, withZstd, peers)
	between := startRelay(t, far.addr)
	near := serve(t, between.addr, withZstd, linking, func(c *Config) { c.Link = NoHistory })
	dialRaw(t, near.addr).run(plain, hello())
	if n := between.links.Load(); n != 0 {
		t.Errorf("%d links", n)
	}
}

// Requests of all kinds pass a link to the server byte for byte, and so do the replies.
func TestLinkIsExact(t *testing.T) {
	_, atServer := between(t)
	p := servePair(t, atServer.addr)
	raw := dialRaw(t, p.near.addr)
	raw.run(plain, hello())
	session := bson.E{Key: "lsid", Value: bson.D{{Key: "id", Value: bson.Binary{Subtype: 4, Data: []byte("0123456789abcdef")}}}}
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
		{0, command("find", "users", session, bson.E{Key: "limit", Value: 1})},
		{uint32(wire.ChecksumPresent), command("find", "users", session)},
		{0, command("insert", "blobs", bson.E{Key: "documents", Value: bson.A{bson.D{{Key: "v", Value: noise}}}}, session)},
		{0, command("find", "blobs")},
		{0, command("insert", "blobs", bson.E{Key: "documents", Value: bson.A{bson.D{{Key: "v", Value: big[:16_000_000]}}, bson.D{{Key: "v", Value: big[:16_000_000]}}, bson.D{{Key: "v", Value: big[:14_000_000]}}}})},
		{0, command("find", "blobs")},
		{0, command("saslStart", 1)},
		{0, command("nonsense", strings.Repeat("x", 1000))},
		{uint32(wire.MoreToCome), command("insert", "w0", bson.E{Key: "documents", Value: bson.A{bson.D{{Key: "a", Value: 1}}}}, bson.E{Key: "writeConcern", Value: bson.D{{Key: "w", Value: 0}}})},
		{0, command("ping", 1)},
	} {
		atServer.take()
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
	}
	if p.near.streams() != 1 {
		t.Error("not over a link")
	}
}

func TestLinkDriver(t *testing.T) {
	server := replicaSet(t)
	p := servePair(t, server.Addr)
	for _, c := range []struct{ options, compressor string }{{"?replicaSet=rs0", "zstd"}, {"?directConnection=true", ""}, {"", "snappy"}} {
		t.Run("as "+c.options+c.compressor, func(t *testing.T) {
			var compressors []string
			if c.compressor != "" {
				compressors = append(compressors, c.compressor)
			}
			client := connect(t, "mongodb://"+p.near.addr+"/"+c.options, compressors...)
			exercise(t, client)
			if p.near.streams() < 2 { // of operations, and of the monitor
				t.Errorf("%d streams", p.near.streams())
			}
			transactAndWatch(t, client)
		})
	}
	testenv.Eventually(t, "no stream", func() bool { return p.near.streams() == 0 })
}

// The far gateway, the near one, or both are load balancers.
func TestLinkBalanced(t *testing.T) {
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
			between := startRelay(t, serve(t, server.Addr, withZstd, far...).addr)
			near := []func(*Config){linking}
			if c.near {
				near = append(near, members(between.addr))
			}
			n := serve(t, between.addr, withZstd, near...)
			transactAndWatch(t, connect(t, "mongodb://"+n.addr+"/?loadBalanced=true"))
			if between.links.Load() == 0 {
				t.Error("no link")
			}
		})
	}
}

func TestLinkTLS(t *testing.T) {
	ca := testenv.NewAuthority(t)
	server := standalone(t)
	far := serve(t, server.Addr, withZstd, peers, func(c *Config) { c.TLS = ca.Issue(t, "server").TLS(t) })
	near := serve(t, far.addr, withZstd, linking, func(c *Config) { c.Upstream.TLS = &tls.Config{RootCAs: ca.Pool, ServerName: "127.0.0.1"} })
	client := connect(t, near.uri())
	exercise(t, client)
	if near.streams() == 0 {
		t.Error("no link")
	}
}

// After a restart of either gateway, and when the server takes the far gateway's place, drivers continue on new
// connections.
func TestLinkRestarts(t *testing.T) {
	server := standalone(t)
	p := servePair(t, server.Addr)
	r := rand.New(rand.NewPCG(9, 9))
	step := func(what string, n *served, links bool) {
		t.Helper()
		coll := connect(t, n.uri()).Database("shop").Collection("people")
		for range 10 {
			if _, err := coll.InsertOne(t.Context(), person(r)); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			find(t, coll, 1, 0)
		}
		if got := n.streams() > 0; got != links {
			t.Errorf("%s: over links %v", what, got)
		}
	}
	step("at the start", p.near, true)
	p.between.lead(serve(t, server.Addr, withZstd, peers).addr)
	step("with another far gateway", p.near, true)
	p.between.lead(server.Addr)
	step("with mongod in its place", p.near, false)
	if n := p.near.log.Count("no link to the far gateway"); n != 1 {
		t.Errorf("%d lines in the log", n)
	}
	p.between.lead(p.far.addr)
	step("with another near gateway", serve(t, p.between.addr, withZstd, linking), true)
}

// Only messages that a rule covers enter the history, at either end.
func TestLinkRules(t *testing.T) {
	server, _ := between(t)
	raw := func(d policy.Direction) []policy.MessageRule {
		return append([]policy.MessageRule{{Name: "raw", Space: "shop.users", Direction: d}}, withZstd...)
	}
	union := command("aggregate", "none", bson.E{Key: "pipeline", Value: bson.A{bson.D{{Key: "$unionWith", Value: "users"}}}}, bson.E{Key: "cursor", Value: bson.D{}})
	secret := func(doc bson.D) bson.D { // a text that occurs nowhere else; the server repeats it in an error
		text := make([]byte, 20_000)
		random := rand.NewChaCha8([32]byte{1})
		for i := range text {
			text[i] = 'a' + byte(random.Uint64()%26)
		}
		return append(doc, bson.E{Key: "comment", Value: string(text)})
	}
	for _, c := range []struct {
		name       string
		near, far  []policy.MessageRule
		doc        bson.D
		up         bool // the second request is smaller
		down       bool // the second reply is smaller
		replyBytes int64
	}{
		{"covered", withZstd, withZstd, command("find", "users"), true, true, 2000},
		{"requests raw near", raw(policy.Request), withZstd, command("find", "users"), false, true, 2000},
		{"replies raw far", withZstd, raw(policy.Reply), command("find", "users"), true, false, 2000},
		{"requests raw near, explain", raw(policy.Request), withZstd, command("explain", bson.D{{Key: "find", Value: "users"}}), false, true, 0},
		{"requests raw near, $unionWith", raw(policy.Request), withZstd, union, false, true, 2000},
		{"replies raw far, $unionWith", withZstd, raw(policy.Reply), union, true, false, 2000},
		{"a login", withZstd, withZstd, command("saslStart", 1), false, true, 0},
		{"a hello", withZstd, withZstd, hello(), false, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			far := serve(t, server.Addr, c.far, peers)
			between := startRelay(t, far.addr)
			near := serve(t, between.addr, c.near, linking)
			client := dialRaw(t, near.addr)
			client.run(plain, hello())
			client.run(plain, secret(c.doc))
			up, down := between.up.Load(), between.down.Load()
			client.run(plain, secret(c.doc))
			up, down = between.up.Load()-up, between.down.Load()-down
			if small := up < 2000; small != c.up {
				t.Errorf("the request took %d bytes", up)
			}
			if c.replyBytes > 0 && (down < c.replyBytes) != c.down {
				t.Errorf("the reply took %d bytes", down)
			}
		})
	}
}

// Streams of hellos and of batches go over a link too.
func TestLinkStreams(t *testing.T) {
	_, atServer := between(t)
	p := servePair(t, atServer.addr)
	raw := dialRaw(t, p.near.addr)
	version := raw.run(plain, hello()).doc.Lookup("topologyVersion").Document()
	id := raw.send(plain, uint32(wire.ExhaustAllowed), append(hello(), bson.E{Key: "topologyVersion", Value: version}, bson.E{Key: "maxAwaitTimeMS", Value: 200}))
	for range 3 {
		a := raw.receive()
		if a.header.ResponseTo != id || a.flags&uint32(wire.MoreToCome) == 0 || len(a.compression()) > 0 {
			t.Fatalf("in the stream of hellos: %+v", a)
		}
		id = a.header.RequestID
	}
	_ = raw.conn.Close() // the stream goes on until then
	testenv.Eventually(t, "it is closed", func() bool { return p.near.stats.Snapshot().Connections.Open == 0 && p.near.streams() == 0 })
	testenv.Eventually(t, "only the link is left", func() bool { return p.far.stats.Snapshot().Connections.Open == 1 })
	raw = dialRaw(t, p.near.addr)
	raw.run(plain, hello())
	cursor := raw.run(plain, command("find", "users", bson.E{Key: "batchSize", Value: 2})).doc.Lookup("cursor", "id").Int64()
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
	if got != 100 {
		t.Errorf("%d documents came", got)
	}
}

// A client that does not read its replies stops no other client of the link, and the far gateway's drain ends both.
func TestLinkSlowClient(t *testing.T) {
	server := standalone(t)
	docs := bson.A{}
	for range 10 {
		docs = append(docs, bson.D{{Key: "v", Value: strings.Repeat("slow ", 200_000)}})
	}
	p := servePair(t, server.Addr)
	slow, quick := dialRaw(t, p.near.addr), dialRaw(t, p.near.addr)
	slow.run(plain, hello())
	quick.run(plain, hello())
	if a := quick.run(plain, command("insert", "long", bson.E{Key: "documents", Value: docs})); !a.ok() {
		t.Fatal(a.doc)
	}
	_ = slow.conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	for range 10 {
		slow.send(plain, 0, command("find", "long"))
	}
	for range 100 {
		if a := quick.run(plain, command("find", "long", bson.E{Key: "limit", Value: 1})); !a.ok() {
			t.Fatal(a.doc)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_ = p.far.Shutdown(ctx) // the slow client's replies never end
	if _, err := exhausted(quick.conn); err != nil {
		t.Error(err)
	}
}

// A drain of the far gateway waits for requests over links, and ends idle connections.
func TestLinkDrain(t *testing.T) {
	_, atServer := between(t)
	p := servePair(t, atServer.addr)
	idle, busy := dialRaw(t, p.near.addr), dialRaw(t, p.near.addr)
	idle.run(plain, hello())
	busy.run(plain, hello())
	busy.send(plain, 0, command("find", "users", bson.E{Key: "filter", Value: bson.D{{Key: "$where", Value: "sleep(30) || true"}}}))
	testenv.Eventually(t, "the server works", func() bool { return atServer.hasSeen("$where") })
	over := make(chan error, 1)
	go func() { over <- p.far.Shutdown(context.Background()) }()
	if _, err := exhausted(idle.conn); err != nil {
		t.Error(err)
	}
	if a := busy.receive(); !a.ok() {
		t.Errorf("%v", a.doc)
	}
	if err := <-over; err != nil {
		t.Error(err)
	}
}

// The far gateway's limit of connections holds for streams.
func TestLinkLimit(t *testing.T) {
	server := standalone(t)
	far := serve(t, server.Addr, withZstd, peers, func(c *Config) { c.MaxConns = 4 })
	near := serve(t, far.addr, withZstd, linking)
	var all []*rawClient
	for range 3 { // the link counts too
		c := dialRaw(t, near.addr)
		c.run(plain, hello())
		all = append(all, c)
	}
	over := dialRaw(t, near.addr)
	over.write(opMsg(1, 0, hello()))
	if _, err := exhausted(over.conn); err != nil {
		t.Errorf("beyond the limit: %v", err)
	}
	for _, c := range all {
		if a := c.run(plain, command("ping", 1)); !a.ok() {
			t.Error(a.doc)
		}
	}
	if n := near.streams(); n != 3 {
		t.Errorf("%d streams", n)
	}
}

// A link that breaks ends its connections. What clients have received is right, and new clients are served.
func TestLinkBreaks(t *testing.T) {
	server := standalone(t)
	p := servePair(t, server.Addr)
	random := rand.New(rand.NewPCG(1, 2))
	want, _ := bson.Marshal(person(random))
	coll := connect(t, p.near.uri()).Database("shop").Collection("people")
	if _, err := coll.InsertOne(t.Context(), bson.Raw(want)); err != nil {
		t.Fatal(err)
	}
	for round := range 30 {
		at, bit := 50+random.Int64N(3000), byte(1)<<random.IntN(8)
		p.between.mu.Lock()
		p.between.damage = func(b []byte, offset int64) {
			if i := at - offset; i >= 0 && i < int64(len(b)) {
				b[i] ^= bit
			}
		}
		p.between.mu.Unlock()
		p.between.lead(p.far.addr)
		raw := dialRaw(t, p.near.addr)
		raw.write(opMsg(1, 0, hello()))
		for range 30 {
			a, err := raw.tryReceive()
			if err != nil {
				break
			}
			if batch := a.doc.Lookup("cursor", "firstBatch"); batch.Type != 0 {
				if list, _ := batch.Array().Values(); len(list) != 1 || !bytes.Equal(list[0].Document(), want) {
					t.Fatalf("round %d: %v", round, a.doc)
				}
			}
			raw.write(opMsg(2, 0, command("find", "people", bson.E{Key: "limit", Value: 1})))
		}
		_ = raw.conn.Close()
	}
	p.between.mu.Lock()
	p.between.damage = nil
	p.between.mu.Unlock()
	p.between.lead(p.far.addr)
	find(t, connect(t, p.near.uri()).Database("shop").Collection("people"), 1, 0)
}

// A MongoDB client whose first message is 256 bytes long, so that it begins with the same byte as a link's hello, is
// served. A connection that begins like a link, but is none, is disconnected.
func TestFirstBytes(t *testing.T) {
	server := standalone(t)
	far := serve(t, server.Addr, withZstd, peers)
	doc := append(hello(), bson.E{Key: "comment", Value: ""})
	doc[len(doc)-1].Value = strings.Repeat("x", 256-len(opMsg(1, 0, doc)))
	raw := dialRaw(t, far.addr)
	if b := opMsg(1, 0, doc); len(b) != 256 {
		t.Fatal(len(b))
	} else if raw.write(b); !raw.receive().ok() {
		t.Error("no reply")
	}
	for _, bytes := range []string{"\x00CINCHT\n" + strings.Repeat("\xff", 7), "\x00CINCHT", "\x00CIN", "\x10"} {
		c, err := net.Dial("tcp", far.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, bytes)
		_ = c.(*net.TCPConn).CloseWrite()
		if _, err := exhausted(c); err != nil {
			t.Errorf("%q: %v", bytes, err)
		}
		_ = c.Close()
	}
	if n := errorCount(far, "version") + errorCount(far, "bad_hello"); n != 3 {
		t.Errorf("%d bad hellos: %v", n, far.stats.Snapshot().Errors)
	}
	if !raw.run(plain, command("ping", 1)).ok() {
		t.Error("another client's connection has ended")
	}
}

func errorCount(s *served, class string) uint64 { return s.stats.Snapshot().Errors[class] }

// Samples count the bytes on the link, by namespace, command and direction.
func TestSample(t *testing.T) {
	server, _ := between(t)
	kinds := sampled.NewMessages(0)
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
	got := map[string]sampled.KindStatus{}
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

// While the far gateway is down, behind a proxy that accepts connections, clients are disconnected. The first client
// after that is on a link again.
func TestLinkAfterDowntime(t *testing.T) {
	server := standalone(t)
	p := servePair(t, server.Addr)
	dialRaw(t, p.near.addr).run(plain, hello())
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = dead.Close()
	p.between.lead(dead.Addr().String()) // the relay accepts, and closes
	testenv.Eventually(t, "the streams have ended", func() bool { return p.near.streams() == 0 })
	c := dialRaw(t, p.near.addr)
	c.write(opMsg(1, 0, hello()))
	if n, err := exhausted(c.conn); n > 0 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	p.between.lead(p.far.addr)
	dialRaw(t, p.near.addr).run(plain, hello())
	if p.near.streams() != 1 || p.near.log.Count("no link to the far gateway") > 0 {
		t.Errorf("%d streams: %s", p.near.streams(), p.near.log)
	}
}
