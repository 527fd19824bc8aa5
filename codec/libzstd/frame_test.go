//go:build cgo

package libzstd

import (
	"testing"

	"github.com/cinch-layer/cinch/codec/codectest"
)

// TestFrameBytes compares what is taken from budgets with what the library takes.
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
