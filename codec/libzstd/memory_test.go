//go:build cgo

package libzstd_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime/debug"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
)

// TestHostileFramesStaySmall watches the process's memory, since the library's allocations are not on Go's
// heap: small values that claim windows of gigabytes, and overrun their length to reach every exit.
func TestHostileFramesStaySmall(t *testing.T) {
	z := newCoder(t)
	value := bytes.Repeat(codectest.JSON(700, 1), 1000)
	payload, err := z.Compress(nil, value, 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	const fhdWindow = 0x00 // a window, no content size
	blocks := payload[5:]  // behind a header with a content size of 4 bytes
	attack := func(window byte) {
		frame := append([]byte{fhdWindow, window}, blocks...)
		for _, rawLen := range []int{1, 1000, 600_000} {
			if _, err := z.Decompress(nil, frame, rawLen, nil); err == nil {
				t.Errorf("%d bytes opened as %d", len(value), rawLen)
			}
		}
		if out, err := z.Decompress(nil, frame, len(value), nil); err != nil || !bytes.Equal(out, value) {
			t.Errorf("window %02x: %v", window, err)
		}
	}
	attack(0x50) // 1 MiB: warms up
	resetPeak(t)
	before := status(t, "VmRSS")
	for _, window := range []byte{0x98, 0xa0, 0xa8, 0xf8} { // 512 MiB and more
		attack(window)
	}
	if peak := status(t, "VmHWM"); peak > before+16<<10 {
		t.Errorf("memory went from %d to %d KiB", before, peak)
	}
}

func resetPeak(t *testing.T) {
	t.Helper()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Skip("the peak can't be reset here: ", err)
	}
}

// status returns a line of /proc/self/status, in KiB.
func status(t *testing.T, name string) (kib int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("no /proc: ", err)
	}
	_, rest, _ := bytes.Cut(b, []byte(name+":"))
	if _, err := fmt.Sscan(string(rest), &kib); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return kib
}

// TestLargeContextsAreFreed checks that large contexts are freed without the collector, which does not see
// the library's memory.
func TestLargeContextsAreFreed(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	framer, ok := newCoder(t).(codec.ZstdFramer)
	if !ok {
		t.Fatal("makes no frames")
	}
	value := bytes.Repeat(codectest.JSON(700, 1), 24<<20/700)
	dst := make([]byte, 0, codec.MaxEncodedLen(codec.Zstd, len(value)))
	const level = 9
	each := framer.FrameBytes(len(value), level)
	if each <= 9<<20 {
		t.Fatalf("%d bytes are not large", each)
	}
	seal := func() {
		w, err := framer.NewFrameWriter(value, level)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if _, err := w.Append(dst, len(value)); err != nil {
			t.Fatal(err)
		}
	}
	seal()
	before := status(t, "VmRSS")
	const n = 8
	for range n {
		seal()
	}
	if now := status(t, "VmRSS"); now > before+n*each/2>>10 {
		t.Errorf("memory went from %d to %d KiB", before, now)
	}
}
