package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	_ "github.com/mostynb/go-grpc-compression/experimental/s2"
	_ "github.com/mostynb/go-grpc-compression/snappy"
	"google.golang.org/grpc/encoding"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/codec/libzstd"
)

// Cinch's compressors and the peers' read each other's output, for messages shorter and longer than a frame,
// at every level.
func TestPeersAndOurs(t *testing.T) {
	peers := map[string][]encoding.Compressor{
		"gzip":   {encoding.GetCompressor("gzip")},
		"lz4":    {encoding.GetCompressor("lz4")},
		"zstd":   {encoding.GetCompressor("zstd")},
		"s2":     {encoding.GetCompressor("s2"), newMimirS2()},
		"snappy": {encoding.GetCompressor("snappy"), newDskitSnappy()},
	}
	set := grpccodec.NewSet(grpccodec.Options{})
	for _, setting := range []string{"gzip", "gzip-1", "lz4", "lz4-9", "zstd", "zstd-1", "zstd-3", "zstd-9", "zstd-19", "s2", "s2-2", "s2-3", "snappy", "snappy-2", "snappy-3"} {
		name, err := grpccodec.WireName(setting)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := set.Compressor(setting)
		if err != nil {
			t.Fatal(err)
		}
		for _, peer := range peers[name] {
			if peer == nil {
				t.Fatal("no peer for " + name)
			}
			sizes := []int{1, 200, 65_537}
			if setting == name {
				sizes = append(sizes, codectest.Amount(1<<20+1, 1<<20+1, 5<<20))
			}
			for _, n := range sizes {
				if err := exchange(ours, peer, text(n)); err != nil {
					t.Errorf("%s -> %T, %d bytes: %v", setting, peer, n, err)
				}
				if err := exchange(peer, ours, text(n)); err != nil {
					t.Errorf("%T -> %s, %d bytes: %v", peer, setting, n, err)
				}
			}
		}
	}
}

// All readers read what libzstd writes for whole messages, and libzstd reads what all writers write.
func TestLibzstd(t *testing.T) {
	lib, ok := libzstd.New()
	if !ok {
		t.Skip("built without cgo")
	}
	set, goSet := grpccodec.NewSet(grpccodec.Options{Zstd: lib}), grpccodec.NewSet(grpccodec.Options{})
	ours, err := goSet.Compressor("zstd")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, 200, 65_537, codectest.Amount(1<<20+1, 1<<20+1, 9<<20)} {
		packed, err := set.AppendCompress([]byte("x"), text(n), "zstd")
		if err != nil || packed[0] != 'x' {
			t.Fatal(err)
		}
		for _, reader := range []encoding.Compressor{ours, encoding.GetCompressor("zstd")} {
			if err := reads(reader, packed[1:], text(n)); err != nil {
				t.Errorf("libzstd -> %T, %d bytes: %v", reader, n, err)
			}
		}
		for _, writer := range []*grpccodec.Set{set, goSet} {
			packed, err := writer.AppendCompress(nil, text(n), "zstd")
			if err != nil {
				t.Fatal(err)
			}
			raw, err := set.AppendDecompress([]byte("y"), packed, "zstd", n)
			if err != nil || !bytes.Equal(raw[1:], text(n)) {
				t.Errorf("%d bytes: %d and %v", n, len(raw), err)
			}
			if n > 0 {
				if _, err := set.AppendDecompress(nil, packed, "zstd", n-1); !errors.Is(err, grpccodec.ErrTooLarge) {
					t.Errorf("%d bytes, one less allowed: %v", n, err)
				}
			}
		}
	}
}

func text(n int) []byte {
	var b []byte
	for i := 0; len(b) < n; i++ {
		b = fmt.Appendf(b, "%d:%x;", i%1013, i*i)
	}
	return b[:n]
}

func exchange(from, to encoding.Compressor, raw []byte) error {
	var packed bytes.Buffer
	w, err := from.Compress(&packed)
	if err != nil {
		return err
	}
	if _, err := w.Write(raw); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return reads(to, packed.Bytes(), raw)
}

func reads(c encoding.Compressor, packed, want []byte) error {
	r, err := c.Decompress(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	got, err := io.ReadAll(r)
	if closer, ok := r.(io.Closer); ok {
		closer.Close()
	}
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("%d bytes came back", len(got))
	}
	return err
}
