package grpccodec_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"runtime"
	"testing"

	"github.com/cinch-layer/cinch/codec/grpccodec"
)

// bomb returns n zeros, compressed.
func bomb(t *testing.T, set *grpccodec.Set, name string, n int) []byte {
	t.Helper()
	packed, err := set.AppendCompress(nil, make([]byte, n), name)
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

func TestBombsEndAtTheLimit(t *testing.T) {
	const size, limit = 32 << 20, 1 << 20
	for _, name := range grpccodec.Names() {
		set := grpccodec.NewSet(grpccodec.Options{MaxInFlight: 1})
		packed := bomb(t, set, name, size)
		set.AppendDecompress(nil, packed, name, limit) // makes the states
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out, err := set.AppendDecompress(nil, packed, name, limit)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, grpccodec.ErrTooLarge) || out != nil {
			t.Errorf("%s: %d bytes and %v", name, len(out), err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 8*limit {
			t.Errorf("%s: %d bytes were allocated for a message of %d at most", name, took, limit)
		}
	}
}

// A reader's own limit applies before a message is decompressed as a whole.
func TestReadersLimit(t *testing.T) {
	const limit = 100_000
	set := grpccodec.NewSet(grpccodec.Options{MaxInFlight: 1, MaxDecodedBytes: limit})
	read := func(packed []byte) (int, error) {
		r, err := set.NewReader("cinch-proto")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if err := r.Reset(bytes.NewReader(packed)); err != nil {
			t.Fatal(err)
		}
		out, err := io.ReadAll(r)
		return len(out), err
	}
	if n, err := read(bomb(t, set, "cinch-proto", limit)); n != limit || err != nil {
		t.Errorf("%d bytes and %v", n, err)
	}
	packed := bomb(t, set, "cinch-proto", 8<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n, err := read(packed)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, grpccodec.ErrTooLarge) {
		t.Errorf("%d bytes and %v", n, err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 8*limit {
		t.Errorf("%d bytes were allocated for a message of %d at most", took, limit)
	}
}

// TestTruncations checks that any part of a message is an error, or a beginning of it if the format has no
// end marker (snappy and s2, between two chunks).
func TestTruncations(t *testing.T) {
	src := message(70_000)
	endless := map[string]bool{"snappy": true, "s2": true}
	for _, name := range grpccodec.Names() {
		set := grpccodec.NewSet(grpccodec.Options{})
		packed, err := set.AppendCompress(nil, src, name)
		if err != nil {
			t.Fatal(err)
		}
		for n := 1; n < len(packed); n += 1 + n/64 {
			out, err := set.AppendDecompress(nil, packed[:n], name, len(src))
			switch {
			case errors.Is(err, grpccodec.ErrCorrupt):
			case err == nil && endless[name] && bytes.HasPrefix(src, out):
			default:
				t.Errorf("%s: %d of %d bytes gave %d bytes and %v", name, n, len(packed), len(out), err)
			}
		}
	}
}

func TestGarbage(t *testing.T) {
	for _, name := range grpccodec.Names() {
		set := grpccodec.NewSet(grpccodec.Options{})
		packed, _ := set.AppendCompress(nil, message(1000), name)
		for what, bad := range map[string][]byte{
			"text":           []byte("this was never compressed at all, not by anyone"),
			"text after it":  append(bytes.Clone(packed), "and some more"...),
			"another format": []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x28\xb5\x2f\xfd\xff\x06\x00\x00"),
		} {
			if out, err := set.AppendDecompress(nil, bad, name, 1<<20); !errors.Is(err, grpccodec.ErrCorrupt) || out != nil {
				t.Errorf("%s: %s gave %d bytes and %v", name, what, len(out), err)
			}
		}
		if raw, err := set.AppendDecompress(nil, packed, name, 1000); err != nil || len(raw) != 1000 {
			t.Errorf("%s: %d bytes and %v afterwards", name, len(raw), err)
		}
	}
}

// zstdFrame returns a frame of one raw block with the given window descriptor.
func zstdFrame(window byte) []byte {
	return append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0, window}, 3<<3|1, 0, 0, 'a', 'b', 'c')
}

// windowLog returns the descriptor of a window of 1<<log bytes.
func windowLog(log int) byte { return byte(log-10) << 3 }

func TestZstdWindow(t *testing.T) {
	set := grpccodec.NewSet(grpccodec.Options{MaxInFlight: 1})
	if out, err := set.AppendDecompress(nil, zstdFrame(windowLog(23)), "zstd", 100); string(out) != "abc" || err != nil {
		t.Errorf("8 MiB: %q, %v", out, err)
	}
	for _, window := range []byte{windowLog(23) + 1, windowLog(24), windowLog(29), windowLog(41)} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := set.AppendDecompress(nil, zstdFrame(window), "zstd", 100)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, grpccodec.ErrCorrupt) {
			t.Errorf("descriptor %#x: %v", window, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
			t.Errorf("descriptor %#x: %d bytes were allocated", window, took)
		}
	}
	small := grpccodec.NewSet(grpccodec.Options{MaxWindowBytes: 1 << 20})
	if _, err := small.AppendDecompress(nil, zstdFrame(windowLog(21)), "zstd", 100); !errors.Is(err, grpccodec.ErrCorrupt) {
		t.Errorf("2 MiB of 1 MiB: %v", err)
	}
}

// A frame that declares too large a length is refused before it is decoded, and a wrong length is detected.
func TestZstdDeclaredLength(t *testing.T) {
	set := grpccodec.NewSet(grpccodec.Options{})
	for _, declared := range []uint64{1 << 40, math.MaxUint64, 200} {
		frame := binary.LittleEndian.AppendUint64([]byte{0x28, 0xb5, 0x2f, 0xfd, 3 << 6, windowLog(10)}, declared)
		frame = append(frame, 3<<3|1, 0, 0, 'a', 'b', 'c')
		for _, limit := range []int{100, 1000} {
			_, err := set.AppendDecompress(nil, frame, "zstd", limit)
			want := grpccodec.ErrTooLarge
			if declared <= uint64(limit) {
				want = grpccodec.ErrCorrupt
			}
			if !errors.Is(err, want) {
				t.Errorf("%d bytes declared, %d allowed: %v", declared, limit, err)
			}
		}
	}
}

// The size that a chunk or block declares must not be allocated many times over.
func TestDeclaredBlocks(t *testing.T) {
	for name, packed := range map[string][]byte{
		"s2":     []byte("\xff\x06\x00\x00S2sTwO\x00\xff\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff\x0f"),
		"snappy": []byte("\xff\x06\x00\x00sNaPpY\x00\x10\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x0f1234567"),
		"minlz":  []byte("\xff\x06\x00\x00MinLz\x0d\x02\xff\xff\xff\x00\x00\x00\x00\xff\xff\xff\x03"),
		"lz4":    []byte("\x04\x22\x4d\x18\x60\x70\x73\xff\xff\x3f\x00"),
	} {
		set := grpccodec.NewSet(grpccodec.Options{MaxInFlight: 1})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := set.AppendDecompress(nil, packed, name, 100)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, grpccodec.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 24<<20 {
			t.Errorf("%s: %d bytes were allocated", name, took)
		}
	}
}

// A frame of linked lz4 blocks must not see data of another message.
func TestLZ4SeesNoOtherMessage(t *testing.T) {
	set := grpccodec.NewSet(grpccodec.Options{MaxInFlight: 1})
	linked := func(block ...byte) []byte {
		frame := []byte{0x04, 0x22, 0x4d, 0x18, 0x40, 0x40, 0xc0}
		frame = binary.LittleEndian.AppendUint32(frame, uint32(len(block)))
		return append(append(frame, block...), 0, 0, 0, 0)
	}
	secret := append([]byte{0xf0, 5}, "twenty secret bytes!"...)
	if out, err := set.AppendDecompress(nil, linked(secret...), "lz4", 1000); string(out) != "twenty secret bytes!" {
		t.Fatalf("%q, %v", out, err)
	}
	// A match 20 bytes before the block's beginning, and five literals.
	spy := append([]byte{0x00, 20, 0}, append([]byte{0x50}, "12345"...)...)
	if out, err := set.AppendDecompress(nil, linked(spy...), "lz4", 1000); !errors.Is(err, grpccodec.ErrCorrupt) {
		t.Errorf("%q, %v", out, err)
	}
}

func TestEmptyInput(t *testing.T) {
	set := grpccodec.NewSet(grpccodec.Options{})
	for _, name := range grpccodec.Names() {
		c, _ := set.Compressor(name)
		r, _ := c.Decompress(bytes.NewReader(nil))
		out, err := io.ReadAll(r)
		if len(out) > 0 || err != nil && !errors.Is(err, grpccodec.ErrCorrupt) {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
}
