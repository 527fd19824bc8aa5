package mongo

import (
	"io"
	"net"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// repeated is a connection from which the same message comes again and again, and that takes anything.
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

// BenchmarkRoundTrip is what a request and its reply cost beside system calls.
func BenchmarkRoundTrip(b *testing.B) {
	answerTo := func(doc bson.D, id wire.CompressorID) []byte {
		m := opMsg(7, 0, doc)
		h, _ := wire.ParseHeader(m)
		h.ResponseTo = h.RequestID
		copy(m, wire.AppendHeader(nil, h))
		if id == plain {
			return m
		}
		return newGatewayFor(b, nil).codecs.compress(m, h, id, 3)
	}
	docs := bson.A{}
	for range 10 {
		docs = append(docs, bson.D{{Key: "name", Value: "somebody"}, {Key: "text", Value: strings.Repeat("the quick brown fox ", 20)}})
	}
	found := bson.D{{Key: "cursor", Value: bson.D{{Key: "firstBatch", Value: docs}}}, {Key: "ok", Value: 1.0}}
	done := bson.D{{Key: "n", Value: 10}, {Key: "ok", Value: 1.0}}
	ping, find := opMsg(7, 0, command("ping", 1)), opMsg(7, 0, command("find", "users", bson.E{Key: "filter", Value: bson.D{{Key: "name", Value: "somebody"}}}))
	insert := opMsg(7, 0, command("insert", "users", bson.E{Key: "documents", Value: docs}))
	for _, test := range []struct {
		name           string
		request, reply []byte
		paired         bool
	}{
		{"ping", ping, answerTo(done, plain), false},
		{"find", find, answerTo(found, wire.Zstd), false},
		{"insert", insert, answerTo(done, wire.Zstd), false},
		{"insert to a gateway", insert, answerTo(done, plain), true},
	} {
		b.Run(test.name, func(b *testing.B) {
			g := newGatewayFor(b, withZstd)
			s := newSession(g, &repeated{message: test.request}, &repeated{message: test.reply}, 0)
			s.sides.taken.Store(1 << wire.Zstd)
			s.sides.fromServer.on.Store(test.paired)
			b.ReportAllocs()
			for b.Loop() {
				m, err := s.in.next()
				if err == nil {
					err = s.handleRequest(m)
				}
				if err != nil {
					b.Fatal(err)
				}
				if m, err = s.out.in.next(); err == nil {
					err = s.out.handle(m)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func newGatewayFor(b *testing.B, rules []policy.MessageRule) *Gateway {
	p, err := policy.NewMessages(rules)
	if err != nil {
		b.Fatal(err)
	}
	return NewGateway(Config{Policy: p, Engine: codec.New(codec.Options{}), Stats: gateway.NewStats("test", "mongo")})
}
