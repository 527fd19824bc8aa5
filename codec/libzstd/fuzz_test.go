//go:build cgo

package libzstd_test

import (
	"bytes"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
)

func FuzzDecompress(f *testing.F) { codectest.FuzzDecompress(f, newCoder(f)) }

func FuzzRoundTrip(f *testing.F) { codectest.FuzzRoundTrip(f, newCoder(f)) }

// FuzzSame checks that both implementations decompress a payload to the same content.
func FuzzSame(f *testing.F) {
	z, g := newCoder(f), codec.NewGoZstd()
	d := codectest.Dicts(f)["trained by go"]
	for _, n := range []int{0, 20, 700, 3000} {
		payload, err := z.Compress(nil, codectest.JSON(n, 1), 3, d)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint16(n), payload)
	}
	f.Fuzz(func(t *testing.T, rawLen uint16, payload []byte) {
		a, errA := z.Decompress(nil, payload, int(rawLen), d)
		b, errB := g.Decompress(nil, payload, int(rawLen), d)
		if errA == nil && errB == nil && !bytes.Equal(a, b) {
			t.Fatal("two readings of one payload")
		}
	})
}
