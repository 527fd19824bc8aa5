package codectest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/cinch-layer/cinch/codec"
)

// maxPiece exceeds the size of a zstd block.
const maxPiece = 300 << 10

// Streams is the test suite for streams with history; a writes and b reads.
func Streams(t *testing.T, a, b codec.ZstdCoder) {
	from, to := codec.New(codec.Options{Zstd: a}), codec.New(codec.Options{Zstd: b})
	for _, level := range []int{1, 3, codec.MaxStreamLevel} {
		for _, window := range []int{codec.MinStreamWindow, 20, codec.MaxStreamWindow} {
			testStream(t, from, to, level, window)
		}
	}
	t.Run("history", func(t *testing.T) { testHistory(t, from, to) })
	t.Run("hostile", func(t *testing.T) { testHostilePieces(t, from, to) })
	t.Run("limits", func(t *testing.T) { testStreamLimits(t, from) })
}

func newStream(t *testing.T, from, to *codec.Engine, level, window int) (codec.StreamWriter, codec.StreamReader) {
	t.Helper()
	w, err := from.StreamWriter(level, window)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	r, err := to.StreamReader(window)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return w, r
}

// testStream sends pieces of all kinds. Each must be restored before the next is made.
func testStream(t *testing.T, from, to *codec.Engine, level, window int) {
	rng := rand.New(rand.NewPCG(uint64(level), uint64(window)))
	w, r := newStream(t, from, to, level, window)
	var before []byte
	for i := range Amount(30, 30, 150) {
		piece := randomPiece(rng, before)
		prefix := []byte("prefix")
		wire, err := w.Append(prefix, piece)
		if err != nil {
			t.Fatalf("level %d, window %d, piece %d: %v", level, window, i, err)
		}
		if most := codec.MaxEncodedLen(codec.Zstd, len(piece)); len(wire)-len(prefix) > most {
			t.Fatalf("a piece of %d bytes became %d, more than %d", len(piece), len(wire)-len(prefix), most)
		}
		got, err := r.Append([]byte("before"), wire[len(prefix):], len(piece))
		if err != nil || string(got) != "before"+string(piece) {
			t.Fatalf("level %d, window %d, piece %d of %d bytes came back as %d: %v", level, window, i, len(piece), len(got), err)
		}
		before = append(before, piece...)
		before = before[max(0, len(before)-(1<<20)):]
	}
}

// randomPiece mixes new data with parts of the previous piece.
func randomPiece(rng *rand.Rand, before []byte) []byte {
	sizes := [...]int{1, 3, 40, 700, 16 << 10, 64 << 10, 128 << 10, maxPiece}
	piece := make([]byte, 1+rng.IntN(sizes[rng.IntN(len(sizes))]))
	switch kind := rng.IntN(4); {
	case kind == 0:
		for i := range piece {
			piece[i] = byte(rng.Uint32())
		}
	case kind == 1:
		for i := range piece {
			piece[i] = "abcdefgh"[rng.IntN(8)]
		}
	case kind == 2 && len(before) > 0:
		copy(piece, before[rng.IntN(len(before)):])
	}
	return piece
}

// testHistory checks that earlier pieces make later ones smaller.
func testHistory(t *testing.T, from, to *codec.Engine) {
	rng := rand.New(rand.NewPCG(1, 2))
	w, r := newStream(t, from, to, 1, 17)
	secret := make([]byte, 4<<10)
	for i := range secret {
		secret[i] = byte(rng.Uint32())
	}
	for i, most := range []int{5 << 10, 64} {
		wire, err := w.Append(nil, secret)
		if err != nil || len(wire) > most {
			t.Fatalf("time %d: %d bytes, %v", i, len(wire), err)
		}
		if got, err := r.Append(nil, wire, len(secret)); err != nil || !bytes.Equal(got, secret) {
			t.Fatal(err)
		}
	}
}

// testHostilePieces changes pieces at random. The reader must return the right number of bytes or an error,
// and must not allocate memory for more.
func testHostilePieces(t *testing.T, from, to *codec.Engine) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range Amount(100, 200, 400) {
		w, r := newStream(t, from, to, 1, 16)
		first := bytes.Repeat([]byte("some text that repeats "), 40)
		wire, err := w.Append(nil, first)
		if err != nil {
			t.Fatal(err)
		}
		rawLen := len(first)
		switch rng.IntN(4) {
		case 0:
			wire = wire[:rng.IntN(len(wire))]
		case 1:
			rawLen += rng.IntN(100) - 50
		default:
			wire[rng.IntN(len(wire))] ^= byte(1 << rng.IntN(8))
		}
		got, err := r.Append(nil, wire, rawLen)
		if err != nil && !errors.Is(err, codec.ErrCorrupt) {
			t.Fatalf("an error of another kind: %v", err)
		}
		if err == nil && len(got) != rawLen || err != nil && len(got) != 0 {
			t.Fatalf("%d bytes for %d: %v", len(got), rawLen, err)
		}
		w.Close()
		r.Close()
	}
	_, r := newStream(t, from, to, 1, 16)
	ended := []byte{1, 0, 0} // an empty last block
	if _, err := r.Append(nil, ended, 0); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("a stream that ends: %v", err)
	}
}

func testStreamLimits(t *testing.T, e *codec.Engine) {
	for _, c := range [][2]int{{0, 20}, {codec.MaxStreamLevel + 1, 20}, {1, codec.MinStreamWindow - 1}, {1, codec.MaxStreamWindow + 1}} {
		if _, err := e.StreamWriter(c[0], c[1]); !errors.Is(err, codec.ErrSetting) {
			t.Errorf("level %d and window %d: %v", c[0], c[1], err)
		}
	}
	w, r := newStream(t, e, e, 1, 16)
	w.Close()
	r.Close()
	if _, err := w.Append(nil, []byte("x")); !errors.Is(err, codec.ErrClosed) {
		t.Errorf("written after Close: %v", err)
	}
	if _, err := r.Append(nil, []byte{0x08, 0, 0, 'x'}, 1); !errors.Is(err, codec.ErrClosed) {
		t.Errorf("read after Close: %v", err)
	}
}
