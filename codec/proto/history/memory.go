package history

import "unsafe"

const (
	nodeBytes = 8 << 10 // of a node with all that is known of it
	mapBytes  = 64      // of an entry in a map
)

// Bytes estimates from above what the Writer remembers, in bytes; the Reader at the other end remembers as much.
func (w *Writer) Bytes() int { return w.model.rememberedBytes() }

// Bytes estimates from above what the Reader remembers, in bytes.
func (r *Reader) Bytes() int { return r.model.rememberedBytes() }

func (m *model) rememberedBytes() int {
	n := len(m.nodes)*nodeBytes + cap(m.runs)*int(unsafe.Sizeof(run{})) + cap(m.shapes)*int(unsafe.Sizeof(shape{}))
	n += cap(m.values)*int(unsafe.Sizeof(value{})) + 2*m.bytes + 32*len(m.values) // values' buffers are at most twice as long, and 32
	n += cap(m.blocks)*int(unsafe.Sizeof(block{})) + 8*len(m.values) + mapBytes*len(m.byKey)
	n += cap(m.lists)*int(unsafe.Sizeof(list{})) + 8*m.members
	return n + memoBytes(&m.guessed) + memoBytes(&m.listed) + memoBytes(&m.series)
}

func memoBytes[T any](m *memo[T]) int { return len(m.buckets) * int(unsafe.Sizeof(bucket[T]{})) }
