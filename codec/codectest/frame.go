package codectest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cinch-layer/cinch/codec"
)

// Frames is the test suite for frames that are written while a value arrives; a writes and b reads.
func Frames(t *testing.T, a, b codec.ZstdCoder) {
	from, to := codec.New(codec.Options{Zstd: a}), codec.New(codec.Options{Zstd: b})
	const block = codec.FrameBlock
	for _, n := range []int{1, 1000, block - 1, block, block + 1, 2*block - 1, 2 * block, 2*block + 1, 5*block + 7} {
		for name, value := range arrivals(n) {
			for _, level := range Amount([]int{1, 3}, []int{0, 3}, []int{0, 1, 3, 9}) {
				testFrame(t, from, to, name, value, level)
			}
		}
	}
	t.Run("larger than any window", func(t *testing.T) { testFrame(t, from, to, "json", JSON(9<<20+5, 3), 3) })
	t.Run("abandoned", func(t *testing.T) { testAbandoned(t, from) })
	t.Run("closed", func(t *testing.T) { testClosedFrame(t, from) })
	t.Run("other settings", func(t *testing.T) {
		for _, st := range []codec.Setting{{Codec: codec.LZ4}, {Codec: codec.Zstd, Dict: 7}, {Codec: codec.Zstd, Level: 99}} {
			if _, err := from.FrameWriter(JSON(100, 1), st); !errors.Is(err, codec.ErrSetting) {
				t.Errorf("%s: %v", st, err)
			}
		}
	})
}

// arrivals returns values of n bytes whose beginnings differ in how well they predict the rest.
func arrivals(n int) map[string][]byte {
	text, noise := JSON(n, 5), Random(n, 6)
	return map[string][]byte{
		"json": text, "noise": noise, "zeros": make([]byte, n),
		"noise first": append(bytes.Clone(noise[:n/2]), text[n/2:]...),
		"noise last":  append(bytes.Clone(text[:n/2]), noise[n/2:]...),
	}
}

// testFrame makes the value arrive in steps of many lengths, in memory that held something else before.
func testFrame(t *testing.T, from, to *codec.Engine, name string, value []byte, level int) {
	t.Helper()
	what := fmt.Sprintf("%s of %d bytes, level %d", name, len(value), level)
	st := codec.Setting{Codec: codec.Zstd, Level: level}
	rng := rand.New(rand.NewPCG(uint64(len(value)), uint64(level)))
	memory := bytes.Repeat([]byte{0xAA}, len(value))
	w, err := from.FrameWriter(memory, st)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer w.Close()
	out := []byte("prefix")
	for n := 0; n < len(value); {
		next := min(n+step(rng, n), len(value))
		copy(memory[n:next], value[n:next])
		n = next
		if out, err = w.Append(out, n); err != nil {
			t.Fatalf("%s, at %d: %v", what, n, err)
		}
	}
	if again, err := w.Append(out, len(value)); err != nil || len(again) != len(out) {
		t.Fatalf("%s: behind its end came %d bytes more: %v", what, len(again)-len(out), err)
	}
	payload := out[len("prefix"):]
	got, err := to.Decompress(nil, payload, codec.Zstd, len(value), nil)
	if err != nil || !bytes.Equal(got, value) || string(out[:6]) != "prefix" {
		t.Fatalf("%s: came back as %d bytes: %v", what, len(got), err)
	}
	whole, err := from.Compress(nil, value, st, nil)
	if err != nil {
		t.Fatal(err)
	}
	if most := len(whole) + len(whole)/100 + 64; len(payload) > most {
		t.Errorf("%s: %d bytes, as a whole %d", what, len(payload), len(whole))
	}
	if len(payload) > codec.MaxEncodedLen(codec.Zstd, len(value)) {
		t.Errorf("%s: %d bytes are more than MaxEncodedLen", what, len(payload))
	}
}

// step returns how many bytes arrive after n: one at a time around the boundaries of blocks.
func step(rng *rand.Rand, n int) int {
	if at := n % codec.FrameBlock; at < 2 || at >= codec.FrameBlock-2 {
		return 1
	}
	steps := []int{codec.FrameBlock - 2 - n%codec.FrameBlock, 1 << 10, 100 << 10, 3 * codec.FrameBlock}
	return steps[rng.IntN(len(steps))]
}

// testAbandoned closes frames in the middle, and then reuses their memory.
func testAbandoned(t *testing.T, e *codec.Engine) {
	st := codec.Setting{Codec: codec.Zstd, Level: 3}
	for n := range 5 {
		memory := JSON(4*codec.FrameBlock, 1)
		w, err := e.FrameWriter(memory, st)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Append(nil, n*codec.FrameBlock*3/4); err != nil {
			t.Fatal(err)
		}
		w.Close()
		w.Close()
		clear(memory)
		testFrame(t, e, e, "json", JSON(3*codec.FrameBlock+1, uint64(n)), 3)
	}
}

func testClosedFrame(t *testing.T, e *codec.Engine) {
	w, err := e.FrameWriter(JSON(1000, 1), codec.Setting{Codec: codec.Zstd})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	if out, err := w.Append([]byte("kept"), 1000); !errors.Is(err, codec.ErrClosed) || string(out) != "kept" {
		t.Errorf("%q, %v", out, err)
	}
}
