//go:build cgo

package libzstd_test

import (
	"testing"

	"github.com/cinch-layer/cinch/codec/codectest"
)

func BenchmarkCompress(b *testing.B)   { codectest.BenchmarkCompress(b, newCoder(b), false) }
func BenchmarkDecompress(b *testing.B) { codectest.BenchmarkDecompress(b, newCoder(b), false) }
