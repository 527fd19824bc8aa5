package plan

import (
	"math/bits"
	"runtime"

	"github.com/cinch-layer/cinch/codec"
)

// Sources of a figure. libzstd's states are not on Go's heap, where they could be counted.
const (
	memoryMeasured = "measured"
	memoryLibrary  = "libzstd's figures"
	memoryHistory  = "with the largest history of a link"
)

// memoryKey groups measurements: states grow with their input, and tables have few sizes.
type memoryKey struct {
	candidate string
	class     int
}

// memoryClass groups lengths into a few classes, since measuring takes time.
func memoryClass(n int) int { return (bits.Len(uint(n)) + 3) / 4 }

// memory returns the size of a candidate's states for values of such a length, or zero if it is unknown.
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
	if c.encoding == encodingPair {
		writer, reader := p.Engine.StreamBytes(c.Setting.Level, codec.MaxStreamWindow)
		return Memory{Compress: int64(writer), Open: int64(reader), From: memoryHistory}
	}
	if c.Brotli == 0 && c.Setting.Codec == codec.Zstd && p.Engine.ZstdName() != "go" {
		if c.Setting.Level > codec.MaxStreamLevel {
			return Memory{} // unknown: gateways take no more for streams
		}
		window := min(max(bits.Len(uint(len(value)-1)), codec.MinStreamWindow), codec.MaxStreamWindow)
		writer, reader := p.Engine.StreamBytes(c.Setting.Level, window)
		return Memory{Compress: int64(writer), Open: int64(reader), From: memoryLibrary}
	}
	// With a new engine and empty pools, the first use allocates a state. Its output buffers exist already.
	s := c.sealer(codec.New(codec.Options{}), d)
	dst := make([]byte, 0, 2*len(value)+1<<12)
	opened := make([]byte, 0, 2*len(value)+1<<12)
	always := func(raw, sealed int) bool { return true }
	m := Memory{From: memoryMeasured}
	runtime.GC() // twice, to empty the pools; once for both directions, as they share none
	runtime.GC()
	m.Compress = allocated(func() { dst = s.seal(dst, value, always) })
	m.Open = allocated(func() { _, _ = s.open(opened, dst) })
	return m
}

// allocated returns the bytes allocated by f, and by other goroutines meanwhile.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}
