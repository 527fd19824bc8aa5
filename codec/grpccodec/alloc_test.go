package grpccodec_test

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"testing"

	"google.golang.org/grpc/encoding"

	"github.com/cinch-layer/cinch/codec/grpccodec"
)

// Limits of the compressors' allocations for a message of any size.
const (
	maxAllocs     = 12
	maxAllocBytes = 1 << 10
)

// fixed is a buffer that never grows.
type fixed struct {
	b []byte
	n int
}

func (f *fixed) Write(p []byte) (int, error) {
	f.n += copy(f.b[f.n:], p)
	return len(p), nil
}

func TestAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("sync.Pool forgets under the race detector")
	}
	set := grpccodec.NewSet(grpccodec.Options{MaxInFlight: 1})
	for _, name := range grpccodec.Names() {
		c, err := set.Compressor(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{200, 16 << 10, 1 << 20} {
			src := message(n)
			out := fixed{b: make([]byte, n+1000)}
			compress := func() { compressTo(t, c, &out, src) }
			checkAllocations(t, fmt.Sprintf("%s: compressing %d bytes", name, n), compress)
			var in bytes.Reader
			buf := make([]byte, 32<<10)
			decompress := func() {
				in.Reset(out.b[:out.n])
				if got := decompressFrom(t, c, &in, buf); got != n {
					t.Fatalf("%s: %d bytes of %d", name, got, n)
				}
			}
			checkAllocations(t, fmt.Sprintf("%s: decompressing %d bytes", name, n), decompress)
		}
	}
}

func compressTo(t *testing.T, c encoding.Compressor, out *fixed, src []byte) {
	out.n = 0
	w, err := c.Compress(out)
	if err == nil {
		_, err = w.Write(src)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func decompressFrom(t *testing.T, c encoding.Compressor, in io.Reader, buf []byte) (n int) {
	r, err := c.Decompress(in)
	if err != nil {
		t.Fatal(err)
	}
	for {
		m, err := r.Read(buf)
		n += m
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	r.(io.Closer).Close()
	return n
}

// checkAllocations uses the best of several tries: a garbage collection in between empties the libraries'
// pools.
func checkAllocations(t *testing.T, what string, f func()) {
	t.Helper()
	const runs = 5
	f()
	allocs, allocBytes := 1e9, 1e9
	for try := 0; try < 5 && (allocs > maxAllocs || allocBytes > maxAllocBytes); try++ {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		allocs = min(allocs, testing.AllocsPerRun(runs, f))
		runtime.ReadMemStats(&after)
		allocBytes = min(allocBytes, float64(after.TotalAlloc-before.TotalAlloc)/(runs+1))
	}
	t.Logf("%s: %.0f allocations of %.0f bytes", what, allocs, allocBytes)
	if allocs > maxAllocs || allocBytes > maxAllocBytes {
		t.Errorf("%s: %.0f allocations of %.0f bytes", what, allocs, allocBytes)
	}
}
