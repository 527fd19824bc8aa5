//go:build cgo

package libzstd

import (
	"testing"
	"unsafe"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
)

// TestFrameBytes compares the estimate charged to budgets with the library's memory.
func TestFrameBytes(t *testing.T) {
	z := &coder{}
	for _, n := range []int{512 << 10, 1 << 20, 3 << 20, 9 << 20} {
		value := codectest.JSON(n, 1)
		for _, level := range []int{1, 3, 6, 9, 12} {
			w, err := z.NewFrameWriter(value, level)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Append(nil, n/2); err != nil {
				t.Fatal(err)
			}
			if has, said := w.(*frameWriter).context.bytes(), z.FrameBytes(n, level); has > said {
				t.Errorf("%d bytes, level %d: %d bytes of memory, estimated %d", n, level, has, said)
			}
			w.Close()
		}
	}
}

// TestFrameStays checks that a buffer with room for the longest frame is never reallocated, which would make
// budgets wrong by its size.
func TestFrameStays(t *testing.T) {
	e := codec.New(codec.Options{Zstd: &coder{}})
	for _, n := range []int{4 * codec.FrameBlock, 4*codec.FrameBlock + 1, 9*codec.FrameBlock - 1} {
		value := codectest.Random(n, 1)
		w, err := e.FrameWriter(value, codec.Setting{Codec: codec.Zstd})
		if err != nil {
			t.Fatal(err)
		}
		out := make([]byte, 0, codec.MaxEncodedLen(codec.Zstd, n))
		begins := unsafe.SliceData(out)
		for at := codec.FrameBlock; ; at = min(at+codec.FrameBlock, n) {
			if out, err = w.Append(out, at); err != nil {
				t.Fatal(err)
			}
			if at == n {
				break
			}
		}
		if unsafe.SliceData(out) != begins {
			t.Errorf("%d bytes: the frame of %d bytes was moved", n, len(out))
		}
		w.Close()
	}
}
