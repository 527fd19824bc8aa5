package link

import (
	"bytes"
	"hash/crc32"
	"io"
	"net"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/peer"
)

// spoken is a link on which a peer has said everything that it will, and takes whatever we say.
type spoken struct{ *bytes.Reader }

func (spoken) Write(p []byte) (int, error)      { return len(p), nil }
func (spoken) WriteTo(io.Writer) (int64, error) { panic("not used") }
func (spoken) Close() error                     { return nil }
func (spoken) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (spoken) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (spoken) SetDeadline(time.Time) error      { return nil }
func (spoken) SetReadDeadline(time.Time) error  { return nil }
func (spoken) SetWriteDeadline(time.Time) error { return nil }

// conversation is the frames of a proper peer: a stream that is begun, goes on, is dropped and begun again.
func conversation(f *testing.F, e *codec.Engine) []byte {
	var said []byte
	for range 2 {
		w, err := e.StreamWriter(1, firstWindow)
		if err != nil {
			f.Fatal(err)
		}
		for i, piece := range []string{"hello, hello, hello, hello", "hello, hello again", "and again hello"} {
			b, err := w.Append(nil, []byte(piece))
			if err != nil {
				f.Fatal(err)
			}
			fr := wire.Frame{Kind: wire.Piece, Window: firstWindow, RawLen: len(piece), Sum: crc32.Checksum([]byte(piece), castagnoli)}
			if i == 0 {
				fr.Kind = wire.Begin
			}
			said = append(wire.AppendCoded(said, fr, len(b)), b...)
		}
		w.Close()
		said = append(wire.AppendRaw(said, 3), "raw"...)
		said = wire.AppendPlain(said, wire.Frame{Kind: wire.Grant, Window: 20})
		said = append(said, byte(wire.Drop))
	}
	return append(said, byte(wire.Fin))
}

// FuzzReceive lets a peer say anything behind the hellos. Both implementations of zstd bear it, keep nothing, and give
// the same bytes where they give any.
func FuzzReceive(f *testing.F) {
	const limit = 64 << 20
	engines := []*codec.Engine{codec.New(codec.Options{})}
	if lib, ok := libzstd.New(); ok {
		engines = append(engines, codec.New(codec.Options{Zstd: lib}))
	}
	var all []*Endpoint
	for _, e := range engines {
		f.Add(conversation(f, e))
		g := NewEndpoint(Config{Name: e.ZstdName(), Engine: e, Setting: codec.Setting{Codec: codec.Zstd, Level: 1}, History: limit, Stats: gateway.NewStats("fuzz", "tunnel")})
		all = append(all, g)
	}
	f.Add([]byte{0x05, 4, 4, 0, 0, 0, 0, 1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, said []byte) {
		var heard [][]byte
		for _, e := range all {
			l, _ := e.newLink(spoken{bytes.NewReader(said)})
			l.out.init(l, wire.Hello{Window: firstWindow, Codecs: sends})
			c := carry(l)
			got, err := io.ReadAll(c)
			_ = c.Close()
			wantNone(t, e)
			if err == nil {
				heard = append(heard, got)
			}
		}
		if len(heard) == 2 && !bytes.Equal(heard[0], heard[1]) {
			t.Errorf("%q and %q", heard[0], heard[1])
		}
		for _, e := range all {
			if n := e.cfg.Stats.Snapshot().Errors["panic"]; n > 0 {
				t.Errorf("%d panics", n)
			}
		}
	})
}
