package plan

import (
	"math/bits"
	"runtime"

	"github.com/cinch-layer/cinch/codec"
)

// Where a figure is from. libzstd's states are not on Go's heap, where they could be counted.
const (
	memoryMeasured = "measured"
	memoryLibrary  = "libzstd's figures"
)

// memoryKey: states grow with what they compress, and tables are of few sizes.
type memoryKey struct {
	candidate string
	class     int
}

// memoryClass puts lengths into a few classes, as measuring takes time.
func memoryClass(n int) int { return (bits.Len(uint(n)) + 3) / 4 }

// memory is what a candidate's states take for values of such a length. It is zero where
// nobody knows.
func (p *planner) memory(c Candidate, d trained, value []byte) Memory {
	if len(value) == 0 {
		return Memory{}
	}
	key := memoryKey{c.String(), memoryClass(len(value))}
	if m, ok := p.memories[key]; ok {
		return m
	}
	m := p.measureMemory(c, d, value)
	if p.memories == nil {
		p.memories = make(map[memoryKey]Memory)
	}
	p.memories[key] = m
	return m
}

func (p *planner) measureMemory(c Candidate, d trained, value []byte) Memory {
	if c.Brotli == 0 && c.Setting.Codec == codec.Zstd && p.Engine.ZstdName() != "go" {
		if c.Setting.Level > codec.MaxStreamLevel {
			return Memory{} // nobody has figures: gateways take no more for streams
		}
		window := min(max(bits.Len(uint(len(value)-1)), codec.MinStreamWindow), codec.MaxStreamWindow)
		writer, reader := p.Engine.StreamBytes(c.Setting.Level, window)
		return Memory{Compress: int64(writer), Open: int64(reader), From: memoryLibrary}
	}
	// Of an engine that is new, and with pools that were just emptied, the first use allocates
	// a state; what it writes to is there before.
	s := c.sealer(codec.New(codec.Options{}), d)
	dst := make([]byte, 0, 2*len(value)+1<<12)
	opened := make([]byte, 0, 2*len(value)+1<<12)
	always := func(raw, sealed int) bool { return true }
	m := Memory{From: memoryMeasured}
	runtime.GC() // twice, until pools are empty; once for both directions, as they share none
	runtime.GC()
	m.Compress = allocated(func() { dst = s.seal(dst, value, always) })
	m.Open = allocated(func() { _, _ = s.open(opened, dst) })
	return m
}

// allocated counts the bytes that f allocates, and others meanwhile.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}
