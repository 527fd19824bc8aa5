package pair

import (
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/dictionary"
)

// Totals counts what one gateway exchanges with others.
type Totals struct {
	Messages struct{ Compressed, Opened atomic.Uint64 }

	Dicts struct {
		Sent, Received atomic.Uint64
		Failed         atomic.Uint64 // exchanges
		Missing        atomic.Uint64 // that the other side had not got
	}
}

// Samples returns how many kinds of messages are measured, and the bytes that their samples take.
func Samples(m *dictionary.Messages) (kinds, bytes int) {
	all := m.Status()
	for _, k := range all {
		bytes += k.SampleBytes
	}
	return len(all), bytes
}
