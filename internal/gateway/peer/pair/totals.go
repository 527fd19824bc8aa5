package pair

import (
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/dictionary"
)

// Totals counts what one gateway exchanges with others. A protocol counts what there is in it.
type Totals struct {
	Connections atomic.Uint64 // that agreed on frames between gateways, on either side

	Messages struct{ Compressed, Stored, Opened atomic.Uint64 }

	Dicts struct {
		Sent, Named, Received atomic.Uint64
		SentBytes             atomic.Uint64
		Failed                atomic.Uint64 // exchanges
		Missing               atomic.Uint64 // that the other side had not got
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
