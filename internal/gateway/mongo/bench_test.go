package mongo

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/trace"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
	"github.com/cinch-layer/cinch/test/testenv"
)

// repeated is a connection that returns the same message repeatedly, and accepts all writes.
type repeated struct {
	net.Conn
	message []byte
	at      int
}

func (f *repeated) Read(p []byte) (int, error) {
	n := copy(p, f.message[f.at:])
	if f.at += n; f.at == len(f.message) {
		f.at = 0
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (f *repeated) Write(p []byte) (int, error) { return len(p), nil }
func (f *repeated) Close() error                { return nil }
func (f *repeated) LocalAddr() net.Addr         { return &net.TCPAddr{} }
func (f *repeated) RemoteAddr() net.Addr        { return &net.TCPAddr{} }

// roundTrip is a request and its reply, carried without a server.
type roundTrip struct {
	name           string
	request, reply []byte
	linked         bool // the server is behind a link
	tracer         *trace.Tracer
}

func roundTrips(t testing.TB) []roundTrip {
	answer := func(doc bson.D, id wire.CompressorID) []byte {
		m := answers(doc)
		if id == plain {
			return m.received
		}
		return compressionBy(t, nil).compress(m.received, m.header, id, 3)
	}
	docs := bson.A{}
	for range 10 {
		docs = append(docs, bson.D{{Key: "name", Value: "somebody"}, {Key: "text", Value: strings.Repeat("the quick brown fox ", 20)}})
	}
	found := bson.D{{Key: "cursor", Value: bson.D{{Key: "firstBatch", Value: docs}}}, {Key: "ok", Value: 1.0}}
	done := bson.D{{Key: "n", Value: 10}, {Key: "ok", Value: 1.0}}
	find := opMsg(1, 0, command("find", "users", bson.E{Key: "filter", Value: bson.D{{Key: "name", Value: "somebody"}}}))
	insert := opMsg(1, 0, command("insert", "users", bson.E{Key: "documents", Value: docs}))
	list := []roundTrip{
		{"ping", opMsg(1, 0, command("ping", 1)), answer(done, plain), false, nil},
		{"find", find, answer(found, wire.Zstd), false, nil},
		{"insert", insert, answer(done, wire.Zstd), false, nil},
		{"insert over a link", insert, answer(done, plain), true, nil},
	}
	others, err := trace.New(trace.Options{Endpoint: "http://127.0.0.1:1/v1/traces", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list[:len(list):len(list)] {
		r.name, r.tracer = r.name+", others are traced", others
		list = append(list, r)
	}
	return list
}

// carrier returns a function that carries request and reply once.
func (r *roundTrip) carrier(t testing.TB) func() error {
	p, err := policy.NewMessages(withZstd)
	if err != nil {
		t.Fatal(err)
	}
	g := NewGateway(Config{Tracer: r.tracer, Policy: p, Engine: codec.New(codec.Options{}), Stats: gateway.NewStats("test", "mongo")})
	s := newSession(g, &repeated{message: r.request}, &repeated{message: r.reply}, 0)
	s.accepted.Store(1 << wire.Zstd)
	if r.linked {
		s.toServer.stream = new(fakeLinkStream)
	}
	return func() error {
		m, err := s.fromClient.next()
		if err == nil {
			err = s.handleRequest(m)
		}
		if err != nil {
			return err
		}
		if m, err = s.fromServer.next(); err == nil {
			err = s.handleReply(m)
		}
		return err
	}
}

// BenchmarkRoundTrip measures the cost of a request and its reply without system calls.
func BenchmarkRoundTrip(b *testing.B) {
	for _, test := range roundTrips(b) {
		b.Run(test.name, func(b *testing.B) {
			carry := test.carrier(b)
			b.ReportAllocs()
			for b.Loop() {
				if err := carry(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestRoundTripsDoNotAllocate(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("pools lose things on purpose")
	}
	for _, test := range roundTrips(t) {
		carry := test.carrier(t)
		if n := testing.AllocsPerRun(1000, func() {
			if err := carry(); err != nil {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations", test.name, n)
		}
	}
}
