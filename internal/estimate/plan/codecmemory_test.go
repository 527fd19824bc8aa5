package plan

import (
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
)

// The memory of states is about as expected: zstd's in Go grow with the level, those of Snappy are a table of
// at most a few hundred KiB, and known sizes are not measured again.
func TestMemory(t *testing.T) {
	p := &planner{Options: options(t)}
	value := []byte(strings.Repeat("a text that repeats, and more of it; ", 200))
	of := func(name string) Memory {
		t.Helper()
		c, err := ParseCandidate(name)
		if err != nil {
			t.Fatal(err)
		}
		return p.memory(c, trained{}, value)
	}
	fast, good := of("zstd-1"), of("zstd-9")
	if fast.From != memoryMeasured || fast.Compress < 100<<10 || good.Compress < 2*fast.Compress || good.Compress > 64<<20 {
		t.Errorf("zstd: %+v and %+v", fast, good)
	}
	if m := of("snappy"); m.Compress > 1<<20 || m.Open > 1<<20 {
		t.Errorf("snappy: %+v", m)
	}
	if again := of("zstd-9"); again != good {
		t.Errorf("%+v, before %+v", again, good)
	}
	if m := p.memory(Candidate{Setting: codec.Setting{Codec: codec.LZ4}}, trained{}, nil); m != (Memory{}) {
		t.Errorf("of nothing: %+v", m)
	}
}
