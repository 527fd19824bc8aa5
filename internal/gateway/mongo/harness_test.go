package mongo

import (
	"bytes"
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

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
	t.Cleanup(func() {
		if err := s.Client(t).Database("shop").Drop(context.Background()); err != nil {
			t.Error(err)
		}
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
		Upstream: endpoint.Upstream{Network: "tcp", Address: upstream, Host: "127.0.0.1"},
		Log:      s.log.Logger(),
		Begin:    gateway.DrainPoll, // longer waits of a drain for new clients are tested in internal/gateway
		Requests: memory.NewBudget(128 << 20), Replies: memory.NewBudget(128 << 20),
	}
	for _, f := range change {
		f(&cfg)
	}
	s.Gateway = NewGateway(cfg)
	s.keeper.Ask = nil // taps would see it; limits before login are tested with servers in test/limits
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
