package codec_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"image"
	"image/jpeg"
	"sync"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
)

var estimateSizes = []int{96, 97, 150, 350, 1000, 4095, 4096, 4097, 10_000, 100_000, 1 << 20}

func TestIncompressibleTrue(t *testing.T) {
	sorts := map[string]func(n int, seed uint64) []byte{"random": codectest.Random, "gzip": gzipped, "jpeg": photo}
	for name, generate := range sorts {
		for _, n := range estimateSizes {
			wrong := 0
			for seed := range codectest.Amount[uint64](10, 20, 50) {
				if value := generate(n, seed); len(value) >= 96 && !codec.Incompressible(value) {
					wrong++
				}
			}
			if wrong > 2 {
				t.Errorf("%s, %d bytes: %d taken for compressible", name, n, wrong)
			}
		}
	}
}

func TestIncompressibleFalse(t *testing.T) {
	hex := func(n int, seed uint64) []byte { return fmt.Appendf(nil, "%x", codectest.Random(n, seed))[:n] }
	sorts := map[string]func(n int, seed uint64) []byte{
		"zeros": codectest.Kinds["zeros"], "json": codectest.JSON, "text": codectest.Text,
		"base64": codectest.Kinds["base64"], "hex": hex,
	}
	for name, generate := range sorts {
		for _, n := range append([]int{0, 1, 63, 95}, estimateSizes...) {
			for seed := range codectest.Amount[uint64](5, 20, 50) {
				if codec.Incompressible(generate(n, seed)) {
					t.Errorf("%s, %d bytes, seed %d: taken for incompressible", name, n, seed)
				}
			}
		}
	}
}

// Codecs without an entropy coder gain nothing from base64, and zstd a quarter. JSON is worth it for all.
func TestIncompressibleByCodec(t *testing.T) {
	for _, id := range []codec.ID{codec.LZ4, codec.S2, codec.MinLZ, codec.Snappy, codec.Zstd, codec.Gzip} {
		plain := id != codec.Zstd && id != codec.Gzip
		for _, n := range []int{1000, 4096, 16 << 10} {
			if got := id.Incompressible(codectest.Kinds["base64"](n, 1)); got != plain {
				t.Errorf("%s, %d bytes of base64: %t", id, n, got)
			}
			if id.Incompressible(codectest.JSON(n, 1)) {
				t.Errorf("%s, %d bytes of JSON", id, n)
			}
		}
	}
}

// TestIncompressibleAgrees compares the estimate with a codec's results on partly random values: for values
// estimated to be incompressible, zstd gains little.
func TestIncompressibleAgrees(t *testing.T) {
	z := codec.NewGoZstd()
	for percent := 0; percent <= 100; percent += 5 {
		value := append(codectest.Random(8000*percent/100, 1), codectest.JSON(8000-8000*percent/100, 2)...)
		payload, err := z.Compress(nil, value, 3, nil)
		if err != nil {
			t.Fatal(err)
		}
		if gain := 1 - float64(len(payload))/float64(len(value)); codec.Incompressible(value) && gain > 0.05 {
			t.Errorf("%d%% random: left alone, but zstd saves %.0f%%", percent, gain*100)
		}
	}
}

func TestIncompressibleAllocatesNothing(t *testing.T) {
	value := codectest.Random(100_000, 1)
	if n := testing.AllocsPerRun(20, func() { codec.Incompressible(value) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

var archive = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(codectest.JSON(8<<20, 1))
	_ = w.Close()
	return b.Bytes()
})

// gzipped returns n bytes from inside a gzip stream.
func gzipped(n int, seed uint64) []byte {
	at := 1000 + int(seed)*1009
	return archive()[at : at+n]
}

var picture = sync.OnceValue(func() []byte {
	const side = 2048
	img := image.NewGray(image.Rect(0, 0, side, side))
	for i, v := range codectest.Random(side*side, 1) {
		img.Pix[i] = uint8(i%side/8+i/side/8) + v>>2
	}
	var b bytes.Buffer
	_ = jpeg.Encode(&b, img, &jpeg.Options{Quality: 85})
	return b.Bytes()
})

// photo returns n bytes from inside a JPEG.
func photo(n int, seed uint64) []byte {
	at := 1000 + int(seed)*1009
	return picture()[at : at+n]
}

func BenchmarkIncompressible(b *testing.B) {
	for _, n := range []int{350, 10_000, 1 << 20} {
		value := codectest.JSON(n, 1)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				codec.Incompressible(value)
			}
		})
	}
}
