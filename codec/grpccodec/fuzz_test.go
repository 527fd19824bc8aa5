package grpccodec_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/cinch-layer/cinch/codec/grpccodec"
)

const fuzzLimit = 64 << 10

// fuzz feeds a decoder. Input that it accepts must be accepted both in one piece and byte by byte, and the
// result must survive being compressed again.
func fuzz(f *testing.F, name string) {
	set := grpccodec.NewSet(grpccodec.Options{MaxDecodedBytes: fuzzLimit})
	for _, n := range []int{0, 1, 100, 5000} {
		packed, err := set.AppendCompress(nil, message(n), name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packed)
		f.Add(packed[:len(packed)/2])
	}
	c, err := set.Compressor(name)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, packed []byte) {
		raw, err := set.AppendDecompress(nil, packed, name, fuzzLimit)
		if err != nil && !errors.Is(err, grpccodec.ErrCorrupt) && !errors.Is(err, grpccodec.ErrTooLarge) {
			t.Fatal(err)
		}
		r, _ := c.Decompress(iotest.OneByteReader(bytes.NewReader(packed)))
		again, err2 := io.ReadAll(r)
		r.(io.Closer).Close()
		if (err == nil) != (err2 == nil) || err == nil && !bytes.Equal(raw, again) {
			t.Fatalf("%d bytes, %v; byte by byte %d, %v", len(raw), err, len(again), err2)
		}
		if e, d := set.InFlight(); e+d != 0 {
			t.Fatalf("%d encoders and %d decoders are out", e, d)
		}
		if err != nil {
			return
		}
		packed, err = set.AppendCompress(nil, raw, name)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := set.AppendDecompress(nil, packed, name, len(raw)); err != nil || !bytes.Equal(back, raw) {
			t.Fatalf("%d bytes of %d came back, %v", len(back), len(raw), err)
		}
	})
}

func FuzzSnappy(f *testing.F) { fuzz(f, "snappy") }
func FuzzS2(f *testing.F)     { fuzz(f, "s2") }
func FuzzMinLZ(f *testing.F)  { fuzz(f, "minlz") }
func FuzzLZ4(f *testing.F)    { fuzz(f, "lz4") }
func FuzzZstd(f *testing.F)   { fuzz(f, "zstd") }
func FuzzProto(f *testing.F)  { fuzz(f, "cinch-proto") }
func FuzzGzip(f *testing.F)   { fuzz(f, "gzip") }
