package codectest

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/internal/zstdframe"
)

// Levels lists the levels to test: the ends, the default and each of the four of the pure Go implementation.
var Levels = []int{0, 1, 3, 6, 19}

// Zstd is the test suite for one implementation. dicts must contain raw content and trained dictionaries.
func Zstd(t *testing.T, z codec.ZstdCoder, dicts map[string]*codec.Dict) {
	dicts = withNone(dicts)
	t.Run("round trip", func(t *testing.T) { CrossDecode(t, z, z, dicts) })
	t.Run("frame", func(t *testing.T) { testFrameForm(t, z, dicts) })
	t.Run("wrong length", func(t *testing.T) { testWrongLength(t, z, dicts) })
	t.Run("damage", func(t *testing.T) { testDamage(t, z, dicts) })
	t.Run("foreign header", func(t *testing.T) { testForeignHeader(t, z, dicts) })
	t.Run("wrong dictionary", func(t *testing.T) { testWrongDict(t, z, dicts) })
	t.Run("append", func(t *testing.T) { testAppend(t, z, dicts) })
	t.Run("bomb", func(t *testing.T) { testBomb(t, z, dicts) })
	t.Run("large", func(t *testing.T) { testLarge(t, z) })
	t.Run("concurrent", func(t *testing.T) { testConcurrent(t, z, dicts) })
}

func withNone(dicts map[string]*codec.Dict) map[string]*codec.Dict {
	all := map[string]*codec.Dict{"no dictionary": nil}
	for name, d := range dicts {
		all[name] = d
	}
	return all
}

// CrossDecode checks that b reads what a writes, over the grid of kinds, sizes, levels and dictionaries.
func CrossDecode(t *testing.T, a, b codec.ZstdCoder, dicts map[string]*codec.Dict) {
	for kind, values := range Values() {
		for dictName, d := range withNone(dicts) {
			t.Run(dictName+"/"+kind, func(t *testing.T) {
				for _, value := range values {
					for _, level := range levelsFor(len(value), kind) {
						roundTrip(t, a, b, value, level, d)
					}
				}
			})
		}
	}
}

// levelsFor omits slow levels that would take minutes, and, except with make full, the longest values apart
// from those with all types of blocks.
func levelsFor(n int, kind string) []int {
	switch {
	case n > Amount(4097, 128<<10, 1<<20+1) && kind != "mixed":
		return nil
	case n > 256<<10:
		return Levels[1:Amount(2, 2, 3)]
	case n > 4097:
		return Levels[1:Amount(2, 3, 4)]
	case testing.Short():
		return Levels[1:4]
	default:
		return Levels
	}
}

func roundTrip(t *testing.T, a, b codec.ZstdCoder, value []byte, level int, d *codec.Dict) {
	t.Helper()
	payload, err := a.Compress(nil, value, level, d)
	if err != nil {
		t.Fatalf("compress %d bytes at level %d: %v", len(value), level, err)
	}
	if most := codec.MaxEncodedLen(codec.Zstd, len(value)); len(payload) > most {
		t.Fatalf("%d bytes became %d, more than %d", len(value), len(payload), most)
	}
	opened, err := b.Decompress(nil, payload, len(value), d)
	if err != nil {
		t.Fatalf("decompress %d bytes of level %d: %v", len(value), level, err)
	}
	if !bytes.Equal(opened, value) {
		t.Fatalf("%d bytes at level %d came back changed", len(value), level)
	}
}

func compress(t *testing.T, z codec.ZstdCoder, value []byte, level int, d *codec.Dict) []byte {
	t.Helper()
	payload, err := z.Compress(nil, value, level, d)
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

// testFrameForm checks the header that the format promises.
func testFrameForm(t *testing.T, z codec.ZstdCoder, dicts map[string]*codec.Dict) {
	for name, d := range dicts {
		for _, value := range Values()["json"] {
			n, payload := len(value), compress(t, z, value, 3, d)
			fhd := payload[0]
			if fhd&0x0f != 0 || fhd&0x20 == 0 {
				t.Errorf("%s, %d bytes: frame header %02x, want one segment, no checksum, no dictionary ID", name, n, fhd)
			}
			if headerLen := 1 + []int{1, 2, 4, 8}[fhd>>6]; headerLen > 3 && n < 65792 {
				t.Errorf("%s, %d bytes: a header of %d bytes", name, n, headerLen)
			}
		}
	}
}

func testWrongLength(t *testing.T, z codec.ZstdCoder, dicts map[string]*codec.Dict) {
	for name, d := range dicts {
		for _, value := range Values()["json"] {
			n, payload := len(value), compress(t, z, value, 1, d)
			// Without its content size, the header does not reveal that a frame is wrong.
			for form, p := range map[string][]byte{"stored": payload, "without content size": reheader(t, payload, n, zstdframe.Header{WindowLog: 20, ContentLen: -1})} {
				for _, wrong := range []int{0, n - 1, n + 1, 2 * n, n + 1<<20} {
					if wrong < 0 || wrong == n {
						continue
					}
					dst := []byte("kept")
					out, err := z.Decompress(dst, p, wrong, d)
					if !errors.Is(err, codec.ErrCorrupt) || string(out) != "kept" {
						t.Errorf("%s, %s: %d bytes opened as %d: %d bytes, %v", name, form, n, wrong, len(out), err)
					}
				}
			}
		}
	}
}

// reheader gives a stored frame another header, without a magic number.
func reheader(t *testing.T, payload []byte, rawLen int, h zstdframe.Header) []byte {
	t.Helper()
	f, err := zstdframe.Parse(payload, rawLen)
	if err != nil {
		t.Fatal(err)
	}
	return f.AppendTo(nil, h)[len(zstdframe.Magic):]
}

// testDamage truncates, extends and flips frames. The result must be an error or, if a flip only changes the
// content, other bytes of the right length.
func testDamage(t *testing.T, z codec.ZstdCoder, dicts map[string]*codec.Dict) {
	for name, d := range dicts {
		value := JSON(Amount(300, 500, 2000), 1)
		payload := compress(t, z, value, 3, d)
		for n := range payload {
			if _, err := z.Decompress(nil, payload[:n], len(value), d); !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("%s: cut to %d of %d bytes: %v", name, n, len(payload), err)
			}
		}
		empty, _ := z.Compress(nil, nil, 3, nil)
		skippable := []byte("\x50\x2a\x4d\x18\x00\x00\x00\x00")
		for _, tail := range [][]byte{{0}, empty, append([]byte(zstdframe.Magic), empty...), skippable, payload} {
			if _, err := z.Decompress(nil, append(bytes.Clone(payload), tail...), len(value), d); !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("%s: with %x behind it: %v", name, tail[:1], err)
			}
		}
		for i := range len(payload) * 8 {
			flipped := bytes.Clone(payload)
			flipped[i/8] ^= 1 << (i % 8)
			out, err := z.Decompress(nil, flipped, len(value), d)
			if err == nil && len(out) != len(value) || err != nil && !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("%s: bit %d flipped: %d bytes, %v", name, i, len(out), err)
			}
		}
	}
}

// testForeignHeader reads frames with headers as other writers make them.
func testForeignHeader(t *testing.T, z codec.ZstdCoder, dicts map[string]*codec.Dict) {
	for name, d := range dicts {
		for _, n := range []int{1, 300, 4096, 300_000} {
			value := JSON(n, 1)
			payload := compress(t, z, value, 3, d)
			for _, h := range []zstdframe.Header{
				{WindowLog: 20, ContentLen: -1},
				{WindowLog: 29, ContentLen: n},
				{WindowLog: 31, ContentLen: -1},
				{WindowLog: 20, ContentLen: n, DictID: d.ZstdID()},
			} {
				out, err := z.Decompress(nil, reheader(t, payload, n, h), n, d)
				if err != nil || !bytes.Equal(out, value) {
					t.Errorf("%s, %d bytes, %+v: %v", name, n, h, err)
				}
			}
		}
	}
}

func testWrongDict(t *testing.T, z codec.ZstdCoder, dicts map[string]*codec.Dict) {
	for name, d := range dicts {
		value := JSON(350, 1)
		payload := compress(t, z, value, 3, d)
		foreign := reheader(t, payload, len(value), zstdframe.Header{WindowLog: 20, ContentLen: -1, DictID: 0x7eadbeef})
		wrong := d
		if d == nil || !d.Trained() {
			wrong = nil
		}
		if _, err := z.Decompress(nil, foreign, len(value), wrong); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("%s: a frame that names another dictionary: %v", name, err)
		}
		if d == nil {
			continue
		}
		out, err := z.Decompress(nil, payload, len(value), nil)
		if err == nil && bytes.Equal(out, value) {
			t.Errorf("%s: opened without the dictionary, so it was not used", name)
		}
	}
}

func testAppend(t *testing.T, z codec.ZstdCoder, dicts map[string]*codec.Dict) {
	for name, d := range dicts {
		for _, n := range []int{0, 10, 1000, 300_000} {
			value := Mixed(n, 0)
			payload, err := z.Compress([]byte("before "), value, 3, d)
			if err != nil || !bytes.HasPrefix(payload, []byte("before ")) {
				t.Fatalf("%s: compress %d bytes: %v", name, n, err)
			}
			buf := make([]byte, 7, 7+n+codec.DecompressSlack)
			copy(buf, "before ")
			out, err := z.Decompress(buf, payload[7:], n, d)
			if err != nil || string(out[:7]) != "before " || !bytes.Equal(out[7:], value) {
				t.Fatalf("%s: decompress %d bytes: %v", name, n, err)
			}
			if &out[0] != &buf[0] {
				t.Errorf("%s: %d bytes: left a buffer that was large enough", name, n)
			}
		}
	}
}

// testBomb feeds frames whose blocks hold far more than rawLen, and checks the allocated memory. Zeros may
// become RLE blocks, whose headers reveal their size; a pattern becomes compressed blocks, whose headers
// don't.
func testBomb(t *testing.T, z codec.ZstdCoder, dicts map[string]*codec.Dict) {
	large := Amount(8<<20, 8<<20, 48<<20)
	pattern := bytes.Repeat(JSON(1024, 5), large/1024)
	for name, d := range dicts {
		for _, value := range [][]byte{make([]byte, large), pattern} {
			bomb := compress(t, z, value, 1, d)
			for _, rawLen := range []int{1, 1000, 200_000, 4 << 20} {
				explode(t, z, name, bomb, large, rawLen, d)
			}
		}
	}
}

func explode(t *testing.T, z codec.ZstdCoder, name string, bomb []byte, held, rawLen int, d *codec.Dict) {
	for _, h := range []zstdframe.Header{
		{WindowLog: 10, ContentLen: -1},
		{WindowLog: 29, ContentLen: -1},
		{WindowLog: 23, ContentLen: rawLen},
	} {
		frame := reheader(t, bomb, held, h)
		_, _ = z.Decompress(nil, frame, rawLen, d) // warms up
		used := allocated(func() {
			if _, err := z.Decompress(nil, frame, rawLen, d); !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("%s: %d bytes opened as %d: %v", name, held, rawLen, err)
			}
		})
		if most := rawLen + 512<<10; used > most {
			t.Errorf("%s: %+v: a bomb allocated %d bytes, want at most %d", name, h, used, most)
		}
	}
}

// allocated returns the bytes that f allocates on the Go heap.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// testLarge checks values beyond the largest window.
func testLarge(t *testing.T, z codec.ZstdCoder) {
	if testing.Short() {
		t.Skip("slow")
	}
	for _, n := range append([]int{zstdframe.MaxWindow, zstdframe.MaxWindow + 1}, Amount(nil, nil, []int{20 << 20})...) {
		value := Text(n, 1)
		payload := compress(t, z, value, 1, nil)
		if single := payload[0]&0x20 != 0; single != (n <= zstdframe.MaxWindow) {
			t.Errorf("%d bytes: one segment: %t", n, single)
		} else if !single && (payload[1]>>3)+10 > 23 {
			t.Errorf("%d bytes: window of 2^%d", n, payload[1]>>3+10)
		}
		out, err := z.Decompress(nil, payload, n, nil)
		if err != nil || !bytes.Equal(out, value) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func testConcurrent(t *testing.T, z codec.ZstdCoder, dicts map[string]*codec.Dict) {
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for worker := range cap(errs) {
		wg.Go(func() { errs <- hammer(z, dicts, uint64(worker)) })
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
}

func hammer(z codec.ZstdCoder, dicts map[string]*codec.Dict, seed uint64) error {
	for i := range uint64(50) {
		value := JSON(int(1+i*37), seed+i)
		for name, d := range dicts {
			payload, err := z.Compress(nil, value, int(i%4), d)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			out, err := z.Decompress(nil, payload, len(value), d)
			if err != nil || !bytes.Equal(out, value) {
				return fmt.Errorf("%s: %d bytes came back wrong: %w", name, len(value), err)
			}
		}
	}
	return nil
}
