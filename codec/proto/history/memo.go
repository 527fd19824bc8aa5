package history

// memo is a lookup table by hash. It has buckets of four, in which new entries replace the oldest ones. It
// doubles, up to a limit, when the number of added entries reaches half its capacity.
type memo[T any] struct {
	buckets []bucket[T]
	most    int // buckets
	added   int
}

type bucket[T any] struct {
	hashes [bucketSize]uint32
	what   [bucketSize]T
}

const (
	bucketSize   = 4
	leastBuckets = 64
	taken        = 1 << 31 // set in all hashes of used entries
)

func newMemo[T any](most int) memo[T] {
	return memo[T]{buckets: make([]bucket[T], leastBuckets), most: most}
}

// at returns the entry of a hash, or nil.
func (m *memo[T]) at(hash uint32) *T {
	b := &m.buckets[hash&uint32(len(m.buckets)-1)]
	hash |= taken
	for i, h := range &b.hashes {
		if h == hash {
			return &b.what[i]
		}
	}
	return nil
}

// put sets the entry of a hash.
func (m *memo[T]) put(hash uint32, v T) {
	if p := m.at(hash); p != nil {
		*p = v
		return
	}
	m.add(hash, v)
}

// add adds another entry for a hash.
func (m *memo[T]) add(hash uint32, v T) {
	m.added++
	if m.added > len(m.buckets)*bucketSize/2 && len(m.buckets) < m.most {
		m.grow()
	}
	m.buckets[hash&uint32(len(m.buckets)-1)].push(hash|taken, v)
}

func (b *bucket[T]) push(hash uint32, v T) {
	copy(b.hashes[1:], b.hashes[:bucketSize-1])
	copy(b.what[1:], b.what[:bucketSize-1])
	b.hashes[0], b.what[0] = hash, v
}

// grow doubles the table. added becomes the number of its entries.
func (m *memo[T]) grow() {
	old := m.buckets
	m.buckets, m.added = make([]bucket[T], 2*len(old)), 0
	for i := range old {
		for j := bucketSize - 1; j >= 0; j-- {
			if h := old[i].hashes[j]; h != 0 {
				m.buckets[h&uint32(len(m.buckets)-1)].push(h, old[i].what[j])
				m.added++
			}
		}
	}
}

// join combines two numbers into one hash.
func join(a, b uint32) uint32 {
	h := a*0x9E3779B1 ^ b*0x85EBCA77
	h ^= h >> 15
	h *= 0x2C1B3C6D
	return h ^ h>>13
}
