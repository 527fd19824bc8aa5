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

// spoken is a connection on which the peer has sent everything, and which accepts all writes.
type spoken struct{ *bytes.Reader }

func (spoken) Write(p []byte) (int, error)      { return len(p), nil }
func (spoken) WriteTo(io.Writer) (int64, error) { panic("not used") }
func (spoken) Close() error                     { return nil }
func (spoken) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (spoken) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (spoken) SetDeadline(time.Time) error      { return nil }
func (spoken) SetReadDeadline(time.Time) error  { return nil }
func (spoken) SetWriteDeadline(time.Time) error { return nil }

// conversation returns the frames of a correct peer: a stream that begins, continues, is dropped and begins again.
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

// FuzzReceive sends arbitrary bytes after the hellos. With both implementations of zstd the receiver survives them,
// holds no memory afterwards, and returns the same bytes.
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
			l, _ := e.newLink(spoken{bytes.NewReader(said)}, true)
			l.out.init(l, wire.Hello{Window: firstWindow, Codecs: sends})
			c := carry(l, "")
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

// hostilePeer sends frames with the right checksums, some of whose blocks it has changed. It knows what they decompress
// to.
type hostilePeer struct {
	t      *testing.T
	engine *codec.Engine
	w      codec.StreamWriter
	r      codec.StreamReader
	window byte
	text   []byte // what pieces are taken from
	said   []byte
	want   []byte // what the receiver has to pass on if it accepts all frames
}

// piece sends n bytes at a place of the text as the next piece of a stream, which it begins if there is none, or if
// begin is set. With flip it changes one byte of the blocks, and the checksum is that of what they then hold.
func (p *hostilePeer) piece(at, n int, begin bool, window, flip byte) {
	kind := wire.Piece
	if begin || p.w == nil {
		p.drop()
		kind, p.window = wire.Begin, window
		var err error
		if p.w, err = p.engine.StreamWriter(1, int(window)); err != nil {
			p.t.Fatal(err)
		}
		if p.r, err = p.engine.StreamReader(int(window)); err != nil {
			p.t.Fatal(err)
		}
	}
	raw := p.text[at%len(p.text):]
	raw = raw[:min(n+1, len(raw))]
	blocks, err := p.w.Append(nil, raw)
	if err != nil {
		p.t.Fatal(err)
	}
	if flip != 0 {
		blocks[at%len(blocks)] ^= flip
	}
	got, err := p.r.Append(nil, blocks, len(raw))
	if err != nil { // the receiver ends the link here
		got = nil
		p.drop()
	}
	p.want = append(p.want, got...)
	fr := wire.Frame{Kind: kind, Window: p.window, RawLen: len(raw), Sum: crc32.Checksum(got, castagnoli)}
	p.said = append(wire.AppendCoded(p.said, fr, len(blocks)), blocks...)
}

// block sends n bytes as a Block of a codec.
func (p *hostilePeer) block(at, n int, id codec.ID, flip byte) {
	raw := p.text[at%len(p.text):]
	raw = raw[:min(n+1, len(raw))]
	content, err := p.engine.Compress(nil, raw, codec.Setting{Codec: id, Level: 1}, nil)
	if err != nil || len(content) == 0 {
		return
	}
	if flip != 0 {
		content[at%len(content)] ^= flip
	}
	got, err := p.engine.Decompress(nil, content, id, len(raw), nil)
	if err != nil {
		got = nil
	}
	p.want = append(p.want, got...)
	fr := wire.Frame{Kind: wire.Block, Codec: byte(id), RawLen: len(raw), Sum: crc32.Checksum(got, castagnoli)}
	p.said = append(wire.AppendCoded(p.said, fr, len(content)), content...)
}

func (p *hostilePeer) drop() {
	if p.w != nil {
		p.w.Close()
		p.r.Close()
		p.w, p.r = nil, nil
	}
}

// do carries out one step, given by the first four bytes of a program.
func (p *hostilePeer) do(step []byte) {
	at, n := int(step[1])<<6, int(step[2])<<(step[3]%9)
	switch step[0] % 16 {
	default:
		p.piece(at, n, false, firstWindow, 0)
	case 8:
		p.piece(at, n, true, firstWindow, 0)
	case 9:
		p.piece(at, n, true, 16+step[3]%8, 0) // granted or not
	case 10:
		p.piece(at, n, false, firstWindow, step[3]|1)
	case 11:
		p.block(at, n, codec.ID(step[3]%8), 0)
	case 12:
		p.block(at, n, codec.ID(step[3]%8), step[1]|1)
	case 13:
		p.drop()
		p.said = append(p.said, byte(wire.Drop))
	case 14:
		p.said = wire.AppendPlain(p.said, wire.Frame{Kind: wire.Grant, Window: 16 + step[1]%8, Epoch: step[2]})
	case 15:
		p.said = wire.AppendPlain(p.said, wire.Frame{Kind: wire.Speed, Speed: uint32(step[1]) << (step[2] & 15)})
	}
}

// FuzzWarm lets a peer send a program of frames with the right checksums, to links whose histories are in use and grow,
// with little memory for them. What a receiver passes on is what the blocks hold, up to the first frame that it
// refuses, and it keeps nothing.
func FuzzWarm(f *testing.F) {
	var all []*Endpoint
	engines := []*codec.Engine{codec.New(codec.Options{})}
	if lib, ok := libzstd.New(); ok {
		engines = append(engines, codec.New(codec.Options{Zstd: lib}))
	}
	for _, e := range engines {
		g := NewEndpoint(Config{Name: e.ZstdName(), Engine: e, Setting: codec.Setting{Codec: codec.Zstd, Level: 1}, History: 8 << 20, Growth: Growth{turn: 1}, Stats: gateway.NewStats("fuzz", "tunnel")})
		all = append(all, g)
	}
	var text []byte
	for i := range 4 << 10 {
		text = append(text, "orders 3400.20 EUR customers "[i%7:]...)
		text = append(text, byte(i), byte(i*i>>3))
	}
	f.Add([]byte("\x00abc\x01abc\x09ab\x02\x02abc\x0dabc\x00abc\x0eabc\x0fabc\x0babc"))
	f.Add([]byte("\x00abc\x0aaba\x00abc"))
	f.Add([]byte("\x00\x00\xff\x08\x00\x40\xff\x08\x00\x80\xff\x08\x00\x20\xff\x08\x09\x00\xff\x04\x00\x10\xff\x08\x0dabc\x09\x00\xff\x01"))
	f.Fuzz(func(t *testing.T, program []byte) {
		p := &hostilePeer{t: t, engine: engines[0], text: text}
		defer p.drop()
		for program = program[:min(len(program), 4<<8)]; len(program) >= 4; program = program[4:] {
			p.do(program)
		}
		said := append(p.said, byte(wire.Fin))
		for _, e := range all {
			l, _ := e.newLink(spoken{bytes.NewReader(said)}, true)
			l.out.init(l, wire.Hello{Window: firstWindow, Codecs: sends})
			c := carry(l, "")
			got, err := io.ReadAll(c)
			_ = c.Close()
			wantNone(t, e)
			if len(got) > len(p.want) || !bytes.Equal(got, p.want[:len(got)]) || err == nil && len(got) != len(p.want) {
				t.Errorf("%s: other bytes, %d of %d, %v", e.cfg.Name, len(got), len(p.want), err)
			}
			if n := e.cfg.Stats.Snapshot().Errors["panic"]; n > 0 {
				t.Errorf("%d panics", n)
			}
		}
	})
}
