package mongo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
	"github.com/cinch-layer/cinch/test/mongotest"
	riglink "github.com/cinch-layer/cinch/test/rig/link"
	"github.com/cinch-layer/cinch/test/testenv"
)

func TestMain(m *testing.M) {
	riglink.Child()
	testenv.Main(m)
}

// tap forwards to a server and records the messages, to see what a gateway really sends.
type tap struct {
	addr string

	mu       sync.Mutex
	server   string
	conns    []net.Conn
	requests []frame // sent to the server
	replies  []frame
}

// frame is one message on the wire.
type frame struct {
	came  wire.CompressorID
	bytes []byte
}

func (f frame) header() wire.Header {
	h, _ := wire.ParseHeader(f.bytes)
	return h
}

func startTap(t *testing.T, server string) *tap {
	t.Helper()
	l := listen(t)
	p := &tap{addr: l.Addr().String(), server: server}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			to := p.server
			p.mu.Unlock()
			up, err := net.Dial("tcp", to)
			if err != nil {
				_ = c.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, c, up)
			p.mu.Unlock()
			go p.copy(&p.requests, up, c)
			go p.copy(&p.replies, c, up)
		}
	}()
	return p
}

func (p *tap) copy(into *[]frame, dst, src net.Conn) {
	defer dst.Close()
	r := reader{Inbound: gateway.Inbound{Conn: src, Ctx: context.Background()}}
	defer r.Free()
	for {
		m, err := r.next()
		if err != nil {
			return
		}
		p.mu.Lock()
		*into = append(*into, frame{m.compressor, bytes.Clone(m.received)})
		p.mu.Unlock()
		if _, err := dst.Write(m.received); err != nil {
			return
		}
	}
}

// take returns the messages since the last call.
func (p *tap) take() (requests, replies []frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	requests, replies = p.requests, p.replies
	p.requests, p.replies = nil, nil
	return requests, replies
}

// hasSeen reports whether a request since the last take contains a text.
func (p *tap) hasSeen(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.requests, func(f frame) bool { return bytes.Contains(f.bytes, []byte(text)) })
}

// standalone returns a server that the tests share, one test at a time. Its database shop is dropped when the
// test ends.
func standalone(t testing.TB) *mongotest.Server {
	t.Helper()
	return shared(t, "")
}

// replicaSet returns a server that is the only member of the replica set rs0.
func replicaSet(t testing.TB) *mongotest.Server {
	t.Helper()
	return shared(t, "rs0")
}

func shared(t testing.TB, set string) *mongotest.Server {
	t.Helper()
	s := testenv.Shared(t, "mongod "+set, func(t testing.TB) *mongotest.Server {
		return mongotest.Start(t, mongotest.Config{ReplicaSet: set})
	})
	t.Cleanup(func() { // a primary that has stepped down is the primary again after some seconds
		shop := s.Client(t).Database("shop")
		testenv.Eventually(t, "the database is dropped", func() bool { return shop.Drop(context.Background()) == nil })
	})
	return s
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// served is a running gateway.
type served struct {
	*Gateway
	addr  string
	stats *gateway.Stats
	log   *testenv.Log
}

// serve starts a gateway with these rules in front of a server.
func serve(t testing.TB, upstream string, rules []policy.MessageRule, change ...func(*Config)) *served {
	t.Helper()
	l := listen(t)
	s := &served{addr: l.Addr().String(), stats: gateway.NewStats("test", "mongo"), log: &testenv.Log{}}
	p, err := policy.NewMessages(rules)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Name: "test", Policy: p, Engine: codec.New(codec.Options{}), Stats: s.stats,
		Upstream:    endpoint.Upstream{Network: "tcp", Address: upstream, Host: "127.0.0.1"},
		Log:         s.log.Logger(),
		Begin:       gateway.DrainPoll, // longer waits of a drain for new clients are tested in internal/gateway
		MonitorLead: gateway.DrainPoll,
		Requests:    memory.NewBudget(128 << 20), Replies: memory.NewBudget(128 << 20),
	}
	for _, f := range change {
		f(&cfg)
	}
	s.Gateway = NewGateway(cfg)
	s.authProbe.Ask = nil // taps would see it; limits before login are tested with servers in test/limits
	go func() { _ = s.Serve(l) }()
	if len(cfg.Members) == 0 { // wait for the gateway's own hello, or tests would mistake it for a client's
		if _, err := askIdentity(t.Context(), cfg.Upstream); err == nil {
			<-s.discovered
		}
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if t.Failed() {
			t.Logf("log of the gateway:\n%s", s.log)
		}
		for _, b := range []*memory.Budget{cfg.Requests, cfg.Replies} {
			if n := b.InUse(); n != 0 {
				t.Errorf("%d bytes of a budget were not given back", n)
			}
		}
	})
	return s
}

// connect returns a driver's client.
func connect(t testing.TB, uri string, compressors ...string) *mongo.Client {
	t.Helper()
	o := options.Client().ApplyURI(uri).SetServerSelectionTimeout(time.Minute)
	if len(compressors) > 0 {
		o.SetCompressors(compressors)
	}
	c, err := mongo.Connect(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = c.Disconnect(ctx)
	})
	return c
}

func (s *served) uri() string { return "mongodb://" + s.addr + "/?directConnection=true" }

var (
	withZstd   = []policy.MessageRule{{Name: "all", Setting: codec.Setting{Codec: codec.Zstd, Level: 3}}}
	withSnappy = []policy.MessageRule{{Name: "all", Setting: codec.Setting{Codec: codec.Snappy}}}
	withZlib   = []policy.MessageRule{{Name: "all", Setting: codec.Setting{Codec: codec.Zlib, Level: 6}}}
	withAuto   = []policy.MessageRule{{Name: "all", Auto: true}}
)

// compressionBy returns the compression of a gateway with these rules, without the gateway.
func compressionBy(t testing.TB, rules []policy.MessageRule) *compression {
	t.Helper()
	p, err := policy.NewMessages(rules)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Policy: p, Engine: codec.New(codec.Options{}), Stats: gateway.NewStats("test", "mongo")}
	cfg.complete()
	return newCompression(&cfg)
}

// silent is a connection that accepts all writes and has nothing to read.
type silent struct {
	net.Conn
	told bytes.Buffer
}

func (s *silent) Read([]byte) (int, error)    { return 0, io.EOF }
func (s *silent) Write(p []byte) (int, error) { return s.told.Write(p) }
func (s *silent) Close() error                { return nil }
func (s *silent) LocalAddr() net.Addr         { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7} }
func (s *silent) RemoteAddr() net.Addr        { return &net.TCPAddr{} }

// drains counts how often a session was asked to end.
type drains int

func (d *drains) Drain() { *d++ }

// partsOf is a session that does not run. It has no server; the test makes up the replies.
type partsOf struct {
	*session
	client *silent
	log    *testenv.Log
	drains drains
}

func newParts(t *testing.T, rules []policy.MessageRule, members ...endpoint.Upstream) *partsOf {
	t.Helper()
	policy, err := policy.NewMessages(rules)
	if err != nil {
		t.Fatal(err)
	}
	p := &partsOf{client: &silent{}, log: &testenv.Log{}}
	g := NewGateway(Config{
		Policy: policy, Engine: codec.New(codec.Options{}), Upstream: endpoint.Upstream{Network: "tcp"}, Members: members,
		Stats: gateway.NewStats("test", "mongo"), Log: p.log.Logger(),
	})
	g.resolved()
	t.Cleanup(g.cancel)
	g.addresses.own.Store(&gateway.Advertised{Host: "gateway", Port: "27"})
	p.session = newSession(g, p.client, &silent{}, 0)
	p.memberSession.session = &p.drains
	if g.balancer != nil {
		g.balancer.sessions.add(&p.memberSession)
	}
	return p
}

// requestOf returns a parsed request.
func requestOf(t testing.TB, b []byte) *request {
	t.Helper()
	r := &request{received: b, plain: b, compressor: plain}
	r.header, _ = wire.ParseHeader(b)
	if err := r.parse(); err != nil {
		t.Fatal(err)
	}
	return r
}

// answers returns a message of the server in reply to request 1.
func answers(doc bson.D) message {
	b := opMsg(9, 0, doc)
	h, _ := wire.ParseHeader(b)
	h.ResponseTo = 1
	copy(b, wire.AppendHeader(nil, h))
	return message{received: b, header: h, compressor: plain}
}

// replyOf returns a parsed reply.
func replyOf(t testing.TB, doc bson.D) *reply {
	t.Helper()
	r := &reply{message: answers(doc)}
	r.plain = r.received
	if err := r.parse(); err != nil {
		t.Fatal(err)
	}
	return r
}

var manyDocuments = bson.E{Key: "documents", Value: users(0, 50)}

var (
	firstNames = strings.Fields("Amelia Björn Chiara Dimitri Elif Farah Goran Hanna Ibrahim Jun Katarzyna Luca Mireille Nikhil Olga Pedro Quentin Rosa Stefan Tomasz Ursula Viktor Wanjiru Xenia Yusuf Zoë")
	lastNames  = strings.Fields("Abernathy Bianchi Castellanos Dubois Eriksson Fernández Grünwald Haddad Ivanova Jansen Kowalski Lindqvist Marchetti Nakamura Okafor Petrov Quispe Rasmussen Silva Tanaka Ueda Vasquez Weber Xu Yılmaz Zhang")
	streets    = strings.Fields("Acacia Birch Chestnut Dogwood Elm Fir Gingko Hazel Ivy Juniper Larch Maple Oak Poplar Rowan Spruce Walnut Willow")
	cities     = strings.Fields("Aarhus Bergamo Coimbra Dresden Eindhoven Freiburg Galway Helsinki Innsbruck Kraków Ljubljana Málaga Nantes Ostrava Porto Rijeka Salzburg Tartu Uppsala Vilnius Zürich")
	plans      = strings.Fields("free starter team business enterprise")
	countries  = strings.Fields("Austria Denmark Finland France Germany Italy Norway Poland Portugal Spain Sweden Switzerland")
	states     = strings.Fields("active active active invited suspended")
	languages  = strings.Fields("de de en en en fr it pl")
	words      = strings.Fields("asked about invoice delivery late second attempt card expired wants refund upgraded yearly discount called support again prefers email contract renewed moved office new contact person training booked export broken report missing total import done")
)

// person returns a document of about 340 bytes like those of applications: with repeated names and words, and
// random numbers.
func person(r *rand.Rand) bson.D {
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	first, last := pick(firstNames), pick(lastNames)
	note := make([]string, 4+r.IntN(5))
	for i := range note {
		note[i] = pick(words)
	}
	var id bson.ObjectID
	for i := range id {
		id[i] = byte(r.Uint32())
	}
	copy(id[:], "\x65\x8a\x11") // timestamps within a few days
	return bson.D{
		{Key: "_id", Value: id},
		{Key: "name", Value: first + " " + last},
		{Key: "email", Value: strings.ToLower(fmt.Sprintf("%s.%s%d@example.com", first, last, r.IntN(100)))},
		{Key: "address", Value: bson.D{{Key: "street", Value: fmt.Sprintf("%d %s Street", 1+r.IntN(200), pick(streets))}, {Key: "city", Value: pick(cities)}, {Key: "zip", Value: fmt.Sprint(10000 + r.IntN(89999))}}},
		{Key: "country", Value: pick(countries)},
		{Key: "status", Value: pick(states)},
		{Key: "plan", Value: pick(plans)},
		{Key: "created", Value: bson.NewDateTimeFromTime(time.UnixMilli(1_700_000_000_000 + r.Int64N(1e10)))},
		{Key: "balance", Value: float64(r.IntN(1_000_000)) / 100},
		{Key: "visits", Value: int32(r.IntN(2000))},
		{Key: "newsletter", Value: r.IntN(4) > 0},
		{Key: "language", Value: pick(languages)},
		{Key: "notes", Value: strings.Join(note, " ")},
	}
}

func people(r *rand.Rand, n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = person(r)
	}
	return list
}
