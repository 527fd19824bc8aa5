package proto

import (
	"bytes"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/proto/internal/pbwire"
)

var makeVectors = flag.Bool("make-vectors", false, "write the test vectors that are missing")

// vectors returns messages whose compressed form is frozen: later releases must read what a release wrote.
func vectors() map[string][]byte {
	var numbers []byte
	for i := range 300 {
		numbers = fixed64Field(numbers, 1, math.Float64bits(float64(i)/8))
		numbers = varintField(numbers, 2, uint64(i*i)<<(i%40))
		numbers = fixed32Field(numbers, 3, uint32(-i))
		numbers = fixed64Field(numbers, 4, 1_790_000_000_000_000_000+uint64(i)*999_983)
	}
	var doubles []byte
	for i := range 300 {
		odd := []float64{math.Copysign(0, -1), 0, 2.5, 1e15, 1e15 + 1, math.NaN(), -0.001, float64(i) / 1e6}
		doubles = fixed64Field(doubles, 1, math.Float64bits(odd[i*i%len(odd)]))
		doubles = fixed64Field(doubles, 2, math.Float64bits(float64(i)/100))
	}
	return map[string][]byte{
		"ids":      ids(4400),
		"packed":   packed(60),
		"doubles":  doubles,
		"records":  records(120, 1),
		"numbers":  numbers,
		"deep":     bytes.Repeat(deep(20), 8),
		"shapes":   manyShapes(90),
		"damaged":  damaged(),
		"anything": bytes.Repeat(anything(rand.New(rand.NewPCG(6, 6)), 2), 9),
		"text":     []byte(strings.Repeat("no protobuf; ", 30)),
		"empty":    {},
	}
}

// ids returns ids that name each other across fields, and random ones, until lookups stop.
func ids(n int) (b []byte) {
	rng := rand.New(rand.NewPCG(7, 7))
	parent := randomBytes(rng, 8)
	for i := range n {
		m := bytesField(nil, 3, randomBytes(rng, 3))
		if i < n/8 {
			span := randomBytes(rng, 8)
			m = bytesField(bytesField(m, 1, span), 2, parent)
			if i%7 == 0 {
				parent = span
			}
		}
		b = bytesField(b, 1, m)
	}
	return b
}

// packed returns packed numbers of each wire type.
func packed(n int) (b []byte) {
	for i := range uint64(n) {
		m := bytesField(nil, 1, packedOf(pbwire.Fixed64Type, i, i*i, i*i*i, 1<<20+i))
		m = bytesField(m, 2, packedOf(pbwire.Fixed64Type, math.Float64bits(float64(i)/4), math.Float64bits(float64(i)/100), math.Float64bits(5)))
		m = bytesField(m, 3, packedOf(pbwire.Fixed32Type, i, i+1, 7*i, 1<<15))
		m = bytesField(m, 4, packedOf(pbwire.VarintType, 1<<50, 1<<50+i, 1<<50-i, i))
		b = bytesField(b, 1, m)
	}
	return b
}

// TestVectors reads the vectors, and foreign-*, which another encoder, written from docs/PROTO.md, made by random
// choices among everything that the format allows. Cinch's encoder never writes much of that, such as a known key in a
// node whose lookups have stopped.
func TestVectors(t *testing.T) {
	if *makeVectors {
		writeVectors(t)
	}
	paths, err := filepath.Glob("testdata/*.message")
	if err != nil || len(paths) < len(vectors()) {
		t.Fatalf("%d vectors, %v", len(paths), err)
	}
	d := NewDecoder(Options{})
	for _, path := range paths {
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := filepath.Glob(strings.TrimSuffix(path, "message") + "cinch-proto*")
		if err != nil || len(sealed) == 0 {
			t.Fatalf("%s alone: %v", path, err)
		}
		for _, path := range sealed {
			packed, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := d.Append(nil, packed, len(want)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %d bytes, %v", path, len(got), err)
			}
		}
	}
}

func writeVectors(t *testing.T) {
	for name, message := range vectors() {
		write := func(suffix string, content []byte) {
			path := filepath.Join("testdata", name+suffix)
			if _, err := os.Stat(path); err == nil {
				return // frozen
			}
			if err := os.WriteFile(path, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		write(".message", message)
		write(".cinch-proto", NewEncoder(Options{}).Append(nil, message))
		write(".cinch-proto-s2", NewEncoder(Options{Setting: codec.Setting{Codec: codec.S2}}).Append(nil, message))
		write(".cinch-proto-raw", NewEncoder(Options{Stored: true}).Append(nil, message)) // always in columns
	}
}
