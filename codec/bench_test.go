package codec_test

import (
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
)

func BenchmarkCompress(b *testing.B)   { codectest.BenchmarkCompress(b, codec.NewGoZstd(), true) }
func BenchmarkDecompress(b *testing.B) { codectest.BenchmarkDecompress(b, codec.NewGoZstd(), true) }
