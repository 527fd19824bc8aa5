package envelope

import (
	"bytes"
	"testing"

	"github.com/cinch-layer/cinch/codec"
)

var zstd3 = codec.Setting{Codec: codec.Zstd, Level: 3}

// arrive passes a value to Ahead in steps, in memory that holds other bytes first.
func arrive(t *testing.T, s *Sealer, value []byte, worth func(raw, sealed int) bool, steps ...int) []byte {
	t.Helper()
	memory := bytes.Repeat([]byte{0xAA}, len(value))
	a := s.Ahead(nil, memory, zstd3)
	if a == nil {
		t.Fatalf("a value of %d bytes is not sealed ahead", len(value))
	}
	defer a.Close()
	for _, n := range append(steps, len(value)-1, len(value), len(value)) { // Seal repeats the last call
		copy(memory[:n], value)
		a.Arrived(n)
	}
	if !a.Is(memory, zstd3) || a.Is(memory[1:], zstd3) || a.Is(bytes.Clone(memory), zstd3) || a.Is(memory, codec.Setting{Codec: codec.Zstd}) {
		t.Error("Is takes one value for another")
	}
	out, did := a.Seal(worth)
	if did.Sealed != IsSealed(out) {
		t.Errorf("%+v of what begins %x", did, out[:3])
	}
	return out
}

// Ahead gives the same results as Seal: sealed or not, wrapped or not, and at most slightly longer.
func TestAheadIsSeal(t *testing.T) {
	s := NewSealer(SealerOptions{})
	const n = 2<<20 + 3*codec.FrameBlock + 5
	text, junk := orders(n), noise(n)
	values := map[string][]byte{
		"json": text, "noise": junk, "zeros": make([]byte, n), "short": text[:n-codec.FrameBlock-5], "lookalike": append([]byte(Magic), text...),
		"noisy lookalike": append([]byte(Magic), junk...), "noise first": append(bytes.Clone(junk[:n/2]), text[:n/2]...),
		"noise last": append(bytes.Clone(text[:n/2]), junk[:n/2]...),
	}
	never := func(int, int) bool { return false }
	for name, value := range values {
		for choice, worth := range map[string]func(int, int) bool{"gain": nil, "always": always, "never": never} {
			want := s.Seal(nil, value, zstd3, worth)
			got := arrive(t, s, value, worth, 1, codec.FrameBlock-1, codec.FrameBlock, codec.FrameBlock+1, MinAhead-1)
			if IsSealed(got) != IsSealed(want) || len(got) > len(want)+len(want)/100 {
				t.Errorf("%s, %s: %d bytes, sealed %v; Seal: %d bytes, %v", name, choice, len(got), IsSealed(got), len(want), IsSealed(want))
			}
			if opened, err := s.Open(nil, got); err != nil || !bytes.Equal(opened, value) {
				t.Errorf("%s, %s: opened as %d bytes: %v", name, choice, len(opened), err)
			}
		}
	}
}

func TestAheadOnlyWhereItPays(t *testing.T) {
	s := NewSealer(SealerOptions{MaxRaw: 4 << 20})
	for _, c := range []struct {
		n    int
		st   codec.Setting
		want bool
	}{
		{MinAhead - 1, zstd3, false},
		{2 << 20, zstd3, true},
		{4 << 20, zstd3, true},
		{4<<20 + 1, zstd3, false},
		{2 << 20, codec.Setting{Codec: codec.Zstd}, true},
		{2 << 20, codec.Setting{Codec: codec.Zstd, Level: 19}, false}, // its tables are many times the value
		{2 << 20, codec.Setting{Codec: codec.Zstd, Dict: 7}, false},
		{2 << 20, codec.Setting{Codec: codec.LZ4}, false},
		{2 << 20, codec.Setting{}, false},
	} {
		a := s.Ahead(nil, make([]byte, c.n), c.st)
		if got := a != nil; got != c.want || got != (s.AheadBytes(c.n, c.st) > 0) {
			t.Errorf("%d bytes, %s: %v", c.n, c.st, got)
		}
		a.Close()
	}
}

// After an encoder's error in the middle, Seal starts over and succeeds.
func TestAheadAfterFailure(t *testing.T) {
	s := NewSealer(SealerOptions{Engine: codec.New(codec.Options{Zstd: brokenFramer{codec.NewGoZstd()}})})
	value := orders(MinAhead + 100)
	out := arrive(t, s, value, nil, codec.FrameBlock, 3*codec.FrameBlock)
	if got, err := s.Open(nil, out); err != nil || !IsSealed(out) || !bytes.Equal(got, value) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
}

// brokenFramer panics at the second block.
type brokenFramer struct{ *codec.GoZstd }

func (brokenFramer) FrameBytes(_, _ int) int { return 1 }

func (brokenFramer) NewFrameWriter([]byte, int) (codec.FrameWriter, error) {
	return &brokenFrame{}, nil
}

type brokenFrame struct{ calls int }

func (b *brokenFrame) Append(dst []byte, _ int) ([]byte, error) {
	if b.calls++; b.calls > 1 {
		panic("broken")
	}
	return dst, nil
}

func (*brokenFrame) Close() {}

// Ahead does not return a frame that CheckFrame finds wrong.
func TestAheadChecksFrames(t *testing.T) {
	s := NewSealer(SealerOptions{Engine: codec.New(codec.Options{Zstd: wordyFramer{codec.NewGoZstd()}})})
	value := orders(MinAhead + 100)
	out := arrive(t, s, value, nil, codec.FrameBlock, 3*codec.FrameBlock)
	if got, err := s.Open(nil, out); err != nil || !IsSealed(out) || !bytes.Equal(got, value) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
}

// wordyFramer appends bytes after the end of the frame.
type wordyFramer struct{ *codec.GoZstd }

func (wordyFramer) FrameBytes(_, _ int) int { return 1 }

func (f wordyFramer) NewFrameWriter(value []byte, level int) (codec.FrameWriter, error) {
	w, err := f.GoZstd.NewFrameWriter(value, level)
	return &wordyFrame{w, len(value)}, err
}

type wordyFrame struct {
	codec.FrameWriter
	rawLen int
}

func (w *wordyFrame) Append(dst []byte, n int) ([]byte, error) {
	out, err := w.FrameWriter.Append(dst, n)
	if n == w.rawLen {
		out = append(out, "\x28\xb5\x2f\xfd\x20\x00\x01\x00\x00"...)
	}
	return out, err
}
