//go:build cgo

package libzstd_test

import (
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/codec/libzstd"
)

func newCoder(t testing.TB) codec.ZstdCoder {
	t.Helper()
	z, ok := libzstd.New()
	if !ok {
		t.Fatal("built with cgo, and there is no libzstd")
	}
	return z
}

// dicts adds a dictionary of libzstd's trainer to the suite's.
func dicts(t testing.TB) map[string]*codec.Dict {
	t.Helper()
	content, err := libzstd.Train(codectest.Documents(400, 7), 8<<10)
	if err != nil {
		t.Fatal(err)
	}
	all := codectest.Dicts(t)
	all["trained by libzstd"] = codectest.NewDict(t, content)
	return all
}

func TestLibzstd(t *testing.T) {
	codectest.Zstd(t, newCoder(t), dicts(t))
}

// TestGoZstd runs the suite again with the dictionary that only libzstd can train.
func TestGoZstd(t *testing.T) {
	const only = "trained by libzstd"
	codectest.Zstd(t, codec.NewGoZstd(), map[string]*codec.Dict{only: dicts(t)[only]})
}

func TestCrossDecode(t *testing.T) {
	z, g := newCoder(t), codec.NewGoZstd()
	t.Run("go reads libzstd", func(t *testing.T) { codectest.CrossDecode(t, z, g, dicts(t)) })
	t.Run("libzstd reads go", func(t *testing.T) { codectest.CrossDecode(t, g, z, dicts(t)) })
}

func TestStreams(t *testing.T) {
	lib, pure := newCoder(t), codec.ZstdCoder(codec.NewGoZstd())
	t.Run("libzstd", func(t *testing.T) { codectest.Streams(t, lib, lib) })
	t.Run("libzstd to go", func(t *testing.T) { codectest.Streams(t, lib, pure) })
	t.Run("go to libzstd", func(t *testing.T) { codectest.Streams(t, pure, lib) })
}

func TestFrames(t *testing.T) {
	lib, pure := newCoder(t), codec.ZstdCoder(codec.NewGoZstd())
	t.Run("libzstd", func(t *testing.T) { codectest.Frames(t, lib, lib) })
	t.Run("libzstd to go", func(t *testing.T) { codectest.Frames(t, lib, pure) })
	t.Run("go to libzstd", func(t *testing.T) { codectest.Frames(t, pure, lib) })
}

// Messages of gRPC are single frames, as A122 requires.
func TestMessages(t *testing.T) {
	set := grpccodec.NewSet(grpccodec.Options{Zstd: newCoder(t)})
	codectest.Messages(t, func(m []byte) ([]byte, error) { return set.AppendCompress(nil, m, "zstd") })
}
