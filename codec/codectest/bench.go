package codectest

import (
	"fmt"
	"testing"

	"github.com/cinch-layer/cinch/codec"
)

// benchmark is a setting on values of one size.
type benchmark struct {
	setting codec.Setting
	dict    *codec.Dict
	values  [][]byte
	sealed  [][]byte
}

// benchmarks returns the benchmarks of all algorithms, or of zstd's settings only.
func benchmarks(b *testing.B, e *codec.Engine, all bool) map[string]*benchmark {
	d := Dicts(b)["trained by us"]
	settings := []codec.Setting{
		{Codec: codec.Zstd, Level: 1},
		{Codec: codec.Zstd, Level: 3},
		{Codec: codec.Zstd, Level: 6},
		{Codec: codec.Zstd, Level: 19},
		{Codec: codec.Zstd, Level: 1, Dict: d.Number()},
		{Codec: codec.Zstd, Level: 3, Dict: d.Number()},
		{Codec: codec.Zstd, Level: 6, Dict: d.Number()},
		{Codec: codec.Zstd, Level: 19, Dict: d.Number()},
	}
	if all {
		for id := codec.Snappy; id.Known(); id++ {
			if id != codec.Zstd {
				settings = append(settings, codec.Setting{Codec: id})
			}
		}
	}
	found := make(map[string]*benchmark)
	for _, s := range settings {
		for size, values := range map[string][][]byte{
			"350B": Documents(64, 99), "10KB": {JSON(10_000, 99), JSON(10_000, 98)}, "1MB": {JSON(1<<20, 99)},
		} {
			bm := &benchmark{setting: s, values: values}
			name := s.String()
			if s.Dict != 0 {
				bm.dict = d
				name = fmt.Sprintf("zstd-%d@dict", s.Level)
			}
			bm.seal(b, e)
			found[name+"/"+size] = bm
		}
	}
	return found
}

func (bm *benchmark) seal(b *testing.B, e *codec.Engine) {
	for _, v := range bm.values {
		sealed, err := e.Compress(nil, v, bm.setting, bm.dict)
		if err != nil {
			b.Fatal(err)
		}
		bm.sealed = append(bm.sealed, sealed)
	}
}

func (bm *benchmark) report(b *testing.B) {
	raw, sealed := 0, 0
	for i := range bm.values {
		raw += len(bm.values[i])
		sealed += len(bm.sealed[i])
	}
	b.SetBytes(int64(raw / len(bm.values)))
	b.ReportMetric(float64(raw)/float64(sealed), "ratio")
	b.ReportAllocs()
}

// BenchmarkCompress measures compression by an engine with z, with all algorithms or zstd only.
func BenchmarkCompress(b *testing.B, z codec.ZstdCoder, all bool) {
	e := codec.New(codec.Options{Zstd: z})
	for name, bm := range benchmarks(b, e, all) {
		b.Run(name, func(b *testing.B) {
			var dst []byte
			for i := 0; b.Loop(); i++ {
				dst, _ = e.Compress(dst[:0], bm.values[i%len(bm.values)], bm.setting, bm.dict)
			}
			bm.report(b)
		})
	}
}

// BenchmarkDecompress measures decompression likewise.
func BenchmarkDecompress(b *testing.B, z codec.ZstdCoder, all bool) {
	e := codec.New(codec.Options{Zstd: z})
	for name, bm := range benchmarks(b, e, all) {
		b.Run(name, func(b *testing.B) {
			var dst []byte
			for i := 0; b.Loop(); i++ {
				at := i % len(bm.values)
				dst, _ = e.Decompress(dst[:0], bm.sealed[at], bm.setting.Codec, len(bm.values[at]), bm.dict)
			}
			bm.report(b)
		})
	}
}
