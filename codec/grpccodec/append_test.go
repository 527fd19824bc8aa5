package grpccodec_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
)

// settings lists every encoding at its default and at other levels.
var settings = []string{
	"snappy", "snappy-2", "s2", "s2-2", "s2-3", "minlz", "minlz-2", "minlz-3", "lz4", "lz4-5",
	"zstd", "zstd-1", "zstd-3", "zstd-9", "zstd-19", "gzip", "gzip-1", "gzip-9",
}

// message returns n bytes in which much, but not all, is repeated.
func message(n int) []byte {
	var b []byte
	for i := 0; len(b) < n; i++ {
		b = fmt.Appendf(b, "pod=api-%d,instance=10.0.%d.%d:9090,le=%d;", i%97, i*7%251, i*31%253, i%11)
	}
	return b[:n]
}

// A setting compresses like its name.
func TestAppendSetting(t *testing.T) {
	set, src := grpccodec.NewSet(grpccodec.Options{}), message(1000)
	for _, name := range settings {
		setting, err := codec.ParseMessageSetting(name)
		if err != nil {
			t.Fatal(err)
		}
		want, err := set.AppendCompress(nil, src, name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := set.AppendSetting([]byte("x"), src, setting); err != nil || string(got) != "x"+string(want) {
			t.Errorf("%s: %d bytes, want %d; %v", name, len(got)-1, len(want), err)
		}
	}
	for _, setting := range []codec.Setting{{}, {Codec: codec.Zstd, Dict: 7}} {
		if got, err := set.AppendSetting([]byte("x"), src, setting); !errors.Is(err, grpccodec.ErrUnknownName) || string(got) != "x" {
			t.Errorf("%s: %q, %v", setting, got, err)
		}
	}
}

func TestAppendRoundTrips(t *testing.T) {
	set := grpccodec.NewSet(grpccodec.Options{})
	for _, name := range settings {
		sizes := []int{0, 1, 200, 1<<10 - 1, 64 << 10, 1<<17 - 1, 1 << 17}
		if !strings.Contains(name, "-") && !raceDetector {
			sizes = append(sizes, 1<<20-1, 1<<20, 1<<20+1, 3<<20)
		}
		for _, n := range sizes {
			src := message(n)
			packed, err := set.AppendCompress([]byte("before"), src, name)
			if err != nil {
				t.Fatal(name, n, err)
			}
			if !bytes.HasPrefix(packed, []byte("before")) {
				t.Fatal(name, n, "what was there is gone")
			}
			raw, err := set.AppendDecompress([]byte("here"), packed[len("before"):], name, n)
			if err != nil {
				t.Fatal(name, n, err)
			}
			if string(raw[:4]) != "here" || !bytes.Equal(raw[4:], src) {
				t.Fatal(name, n, "another message came back")
			}
			if n == 0 {
				continue
			}
			if raw, err = set.AppendDecompress([]byte("here"), packed[len("before"):], name, n-1); !errors.Is(err, grpccodec.ErrTooLarge) || string(raw) != "here" {
				t.Fatalf("%s %d: one byte too many gave %v and %d bytes", name, n, err, len(raw))
			}
		}
	}
	if e, d := set.InFlight(); e+d != 0 {
		t.Errorf("%d encoders and %d decoders are still out", e, d)
	}
}

// Without a level zstd chooses one by size, the other encodings don't.
func TestZstdChoosesItsLevel(t *testing.T) {
	set := grpccodec.NewSet(grpccodec.Options{})
	for n, want := range map[int]string{1<<17 - 1: "zstd-1", 1 << 17: "zstd-3"} {
		got, err := set.AppendCompress(nil, message(n), "zstd")
		if err != nil {
			t.Fatal(err)
		}
		for _, level := range []string{"zstd-1", "zstd-3"} {
			leveled, err := set.AppendCompress(nil, message(n), level)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Equal(got, leveled) != (level == want) {
				t.Errorf("%d bytes: %d, with %s %d", n, len(got), level, len(leveled))
			}
		}
	}
}

// A caller without a limit passes math.MaxInt.
func TestAppendDecompressWithoutLimit(t *testing.T) {
	set := grpccodec.NewSet(grpccodec.Options{})
	src := message(20_000)
	for _, name := range grpccodec.Names() {
		packed, err := set.AppendCompress(nil, src, name)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out, err := set.AppendDecompress(nil, packed, name, math.MaxInt)
		runtime.ReadMemStats(&after)
		if err != nil || !bytes.Equal(out, src) {
			t.Errorf("%s: %d bytes and %v", name, len(out), err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 {
			t.Errorf("%s: %d bytes were allocated", name, took)
		}
	}
}
