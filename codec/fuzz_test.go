package codec_test

import (
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
)

func FuzzDecompress(f *testing.F) { codectest.FuzzDecompress(f, codec.NewGoZstd()) }

func FuzzRoundTrip(f *testing.F) { codectest.FuzzRoundTrip(f, codec.NewGoZstd()) }
