package gateway

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A long value is compressed into one buffer, and many short ones into buffers of the pool.
func TestCompressAllocations(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("pools forget at random")
	}
	large := make([]byte, 0, 2<<20)
	for i := 0; len(large) < 2<<20-100; i++ {
		large = fmt.Appendf(large, `{"id":%d,"name":"dish %d","price":%d},`, i, i*i, i%97)
	}
	small := large[:200]
	for _, st := range []codec.Setting{{Codec: codec.LZ4}, {Codec: codec.Zstd, Level: 1}} {
		c := Compressor{Sealer: envelope.NewSealer(envelope.SealerOptions{Engine: codec.New(codec.Options{})}), Stats: NewStats("a", "redis")}
		rule := &policy.Rule{Name: "all", Setting: st, MinGain: policy.AnyGain}
		one := func() {
			out, did := c.Compress(nil, large, rule, st, policy.String)
			if !did.Sealed || len(out) > len(large)/2 {
				t.Fatalf("%s: %+v, %d bytes", st, did, len(out))
			}
			memory.PutBuffer(out)
		}
		one()
		if n := testing.AllocsPerRun(5, one); n > 1 {
			t.Errorf("%s: a value of %d bytes takes %v allocations", st, len(large), n)
		}
		many := func() {
			var all []byte
			for range 1000 {
				all, _ = c.Compress(all, small, rule, st, policy.String)
			}
			back, err := c.Sealer.Open(nil, all[len(all)/1000*999:])
			if err != nil || !bytes.Equal(back, small) {
				t.Fatalf("%s: the last one opens to %q, %v", st, back, err)
			}
			memory.PutBuffer(all)
		}
		many()
		if n := testing.AllocsPerRun(5, many); n > 10 {
			t.Errorf("%s: 1000 values of %d bytes take %v allocations", st, len(small), n)
		}
	}
}
