package tarantool

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// nowhere is a connection that discards what is written to it.
type nowhere struct{ net.Conn }

func (nowhere) Write(p []byte) (int, error)      { return len(p), nil }
func (nowhere) Close() error                     { return nil }
func (nowhere) SetWriteDeadline(time.Time) error { return nil }
func (nowhere) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (nowhere) RemoteAddr() net.Addr             { return &net.TCPAddr{} }

// BenchmarkPumps measures handling a request and its reply, without system calls.
func BenchmarkPumps(b *testing.B) {
	doc := strings.Repeat("a document, 0123456789, ", 15)
	g := offline(b)
	defer g.cancel()
	envelope := string(g.codec.Sealer.Seal(nil, []byte(doc), codec.Setting{Codec: codec.LZ4}, nil))
	for _, test := range []struct {
		name           string
		typ            wire.Type
		request, reply keyed
	}{
		{"ping", wire.Ping, nil, nil},
		{"select", wire.Select, keyed{0x10, 600, 0x11, 0, 0x12, 1, 0x20, []any{1}}, keyed{0x30, []any{[]any{1, envelope, 3}}}},
		{"insert", wire.Insert, keyed{0x10, 600, 0x21, []any{1, doc, 3}}, keyed{0x30, []any{[]any{1, envelope, 3}}}},
		{"update", wire.Update, keyed{0x10, 600, 0x11, 0, 0x20, []any{1}, 0x21, []any{[]any{"+", 2, 1}}}, keyed{0x30, []any{}}},
	} {
		b.Run(test.name, func(b *testing.B) {
			request := frame{encode(b, test.typ, 7, nil, test.request), 5}
			reply := frame{encode(b, wire.OK, 7, keyed{0x05, 9}, test.reply), 5}
			s := newSession(g, nowhere{}, nowhere{})
			defer s.Close()
			b.ReportAllocs()
			for b.Loop() {
				if err := s.handleRequest(&request); err != nil {
					b.Fatal(err)
				}
				if err := s.handleReply(&reply); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
