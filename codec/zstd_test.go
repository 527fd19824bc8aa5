package codec_test

import (
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
)

func TestGoZstd(t *testing.T) {
	codectest.Zstd(t, codec.NewGoZstd(), codectest.Dicts(t))
}

func TestGoStreams(t *testing.T) { codectest.Streams(t, codec.NewGoZstd(), codec.NewGoZstd()) }

func TestGoFrames(t *testing.T) {
	codectest.Frames(t, codec.NewGoZstd(), codec.NewGoZstd())
}
