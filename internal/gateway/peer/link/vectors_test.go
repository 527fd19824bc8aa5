package link

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/peer"
)

var makeVectors = flag.Bool("make-vectors", false, "write the vectors anew; zstd's output may differ from one version to the next, so only when the format changes")

// vector is one direction of a link after its OPEN. clients/python/tests/test_peer.py reads the same ones.
type vector struct {
	Name   string `json:"name"`
	Hello  string `json:"hello"`           // of the sender, in hex
	Frames string `json:"frames"`          // in hex
	Bytes  string `json:"bytes,omitempty"` // what the frames carry, in hex
	Refuse bool   `json:"refuse,omitempty"`
}

var vectorFile = filepath.Join("testdata", "vectors.json")

// linkBuilder writes the frames of a vector.
type linkBuilder struct {
	t      testing.TB
	engine *codec.Engine
	frames []byte
	bytes  []byte
}

func (b *linkBuilder) raw(text string) {
	b.frames = append(wire.AppendRaw(b.frames, len(text)), text...)
	b.bytes = append(b.bytes, text...)
}

func (b *linkBuilder) block(id codec.ID, text string) {
	payload, err := b.engine.Compress(nil, []byte(text), codec.Setting{Codec: id}, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	f := wire.Frame{Kind: wire.Block, Codec: byte(id), RawLen: len(text), Sum: crc32.Checksum([]byte(text), castagnoli)}
	b.frames = append(wire.AppendCoded(b.frames, f, len(payload)), payload...)
	b.bytes = append(b.bytes, text...)
}

// pieces writes texts as a new stream with history.
func (b *linkBuilder) pieces(window int, texts ...string) {
	w, err := b.engine.StreamWriter(3, window)
	if err != nil {
		b.t.Fatal(err)
	}
	defer w.Close()
	for i, text := range texts {
		payload, err := w.Append(nil, []byte(text))
		if err != nil {
			b.t.Fatal(err)
		}
		f := wire.Frame{Kind: wire.Piece, RawLen: len(text), Sum: crc32.Checksum([]byte(text), castagnoli)}
		if i == 0 {
			f.Kind, f.Window = wire.Begin, byte(window)
		}
		b.frames = append(wire.AppendCoded(b.frames, f, len(payload)), payload...)
		b.bytes = append(b.bytes, text...)
	}
}

func (b *linkBuilder) plain(frames ...wire.Frame) {
	for _, f := range frames {
		b.frames = wire.AppendPlain(b.frames, f)
	}
}

// newVectors returns the vectors, as testdata/vectors.json has them.
func newVectors(t testing.TB) (all []vector) {
	hello := wire.Hello{Lowest: 1, Highest: 1, Window: firstWindow, Codecs: sends}
	rows := func(n int) string {
		var s strings.Builder
		for i := range n {
			fmt.Fprintf(&s, "%d\tcustomer %d of the town\t%d.%02d EUR\n", 4711+i, i%7, i*i, i%100)
		}
		return s.String()
	}
	add := func(name string, hello wire.Hello, write func(*linkBuilder)) *vector {
		b := &linkBuilder{t: t, engine: codec.New(codec.Options{})}
		write(b)
		all = append(all, vector{Name: name, Hello: hex.EncodeToString(hello.Append(nil)), Frames: hex.EncodeToString(b.frames), Bytes: hex.EncodeToString(b.bytes)})
		return &all[len(all)-1]
	}
	fin := wire.Frame{Kind: wire.Fin}
	add("nothing", hello, func(b *linkBuilder) { b.plain(fin) })
	add("every codec", hello, func(b *linkBuilder) {
		b.raw("as it is")
		for _, id := range []codec.ID{codec.Snappy, codec.S2, codec.MinLZ, codec.LZ4, codec.Zstd} {
			b.block(id, rows(30))
		}
		b.plain(fin)
	})
	lanes := hello
	lanes.Extensions = wire.AppendExtension(wire.AppendExtension("", 200, "from later"), wire.Lanes, "\x01")
	add("history", lanes, func(b *linkBuilder) {
		b.pieces(firstWindow, rows(20), rows(21), "x", rows(40))
		b.raw("a raw block between two streams")
		b.plain(wire.Frame{Kind: wire.Grant, Window: 20}, wire.Frame{Kind: wire.Speed, Speed: 80_000})
		b.pieces(codec.MinStreamWindow, rows(5), rows(6))
		b.plain(wire.Frame{Kind: wire.Drop})
		b.pieces(firstWindow, rows(3), rows(4))
		b.plain(fin, wire.Frame{Kind: wire.Drop})
	})
	refuse := func(name string, write func(*linkBuilder)) {
		v := add(name, hello, func(b *linkBuilder) { write(b); b.plain(fin) })
		v.Refuse, v.Bytes = true, ""
	}
	refuse("no such frame", func(b *linkBuilder) { b.frames = append(b.frames, 0x60) })
	refuse("opened twice", func(b *linkBuilder) { b.frames = append(b.frames, byte(wire.Open)) })
	refuse("an empty block", func(b *linkBuilder) { b.raw("") })
	refuse("a block that is too long", func(b *linkBuilder) { b.frames = append(b.frames, 0x00, 0x81, 0x80, 0x04) })
	refuse("a number with an empty byte", func(b *linkBuilder) { b.frames = append(b.frames, 0x00, 0x81, 0x00, 'x') })
	refuse("a codec that was not offered", func(b *linkBuilder) { b.block(codec.Zlib, rows(9)) })
	refuse("a piece without a stream", func(b *linkBuilder) {
		b.pieces(firstWindow, rows(9))
		b.frames = append([]byte{byte(wire.Piece)}, b.frames[2:]...)
	})
	refuse("a piece after a drop", func(b *linkBuilder) {
		b.pieces(firstWindow, rows(9))
		first := bytes.Clone(b.frames[2:])
		b.plain(wire.Frame{Kind: wire.Drop})
		b.frames = append(append(b.frames, byte(wire.Piece)), first...)
	})
	refuse("a window that was not granted", func(b *linkBuilder) { b.pieces(firstWindow+1, rows(9)) })
	refuse("a wrong checksum", func(b *linkBuilder) {
		b.block(codec.LZ4, rows(9))
		b.frames[5] ^= 1
	})
	refuse("another length than declared", func(b *linkBuilder) {
		b.pieces(firstWindow, "0123456789")
		b.frames[2]++
	})
	return all
}

// TestVectors reads frozen links with both implementations of zstd.
func TestVectors(t *testing.T) {
	if *makeVectors {
		b, _ := json.MarshalIndent(newVectors(t), "", " ")
		if err := os.WriteFile(vectorFile, append(b, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	var all []vector
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	if n := len(newVectors(t)); len(all) != n {
		t.Errorf("%d vectors in the file, %d in this test: see -make-vectors", len(all), n)
	}
	engines := []*codec.Engine{codec.New(codec.Options{})}
	if lib, ok := libzstd.New(); ok {
		engines = append(engines, codec.New(codec.Options{Zstd: lib}))
	}
	for _, engine := range engines {
		for _, v := range all {
			t.Run(engine.ZstdName()+"/"+v.Name, func(t *testing.T) { readVector(t, engine, v) })
		}
	}
}

func readVector(t *testing.T, engine *codec.Engine, v vector) {
	unhex := func(text string) []byte {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	hello, err := wire.ParseHello(unhex(v.Hello))
	if err != nil || !bytes.Equal(hello.Append(nil), unhex(v.Hello)) {
		t.Fatalf("hello %+v, %v", hello, err)
	}
	e := NewEndpoint(Config{Name: "vectors", Engine: engine, Setting: codec.Setting{Codec: codec.Zstd, Level: 1}, Stats: gateway.NewStats("vectors", "tunnel")})
	l, _ := e.newLink(spoken{bytes.NewReader(unhex(v.Frames))}, true)
	l.meet(hello)
	c := carry(l, "")
	got, err := io.ReadAll(c)
	_ = c.Close()
	switch {
	case v.Refuse && (err == nil || err == io.ErrUnexpectedEOF):
		t.Errorf("%d bytes were accepted: %v", len(got), err)
	case v.Refuse:
	case err != nil:
		t.Error(err)
	case !bytes.Equal(got, unhex(v.Bytes)):
		t.Errorf("%d bytes in place of %d", len(got), len(v.Bytes)/2)
	}
}
