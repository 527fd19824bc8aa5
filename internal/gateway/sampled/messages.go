package sampled

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/dictionary/reservoir"
	"github.com/cinch-layer/cinch/internal/policy"
)

// Limits of Messages, in addition to those of Samples.
const (
	MaxMessageSample = 16 << 10    // bytes; longer messages are counted, and not sampled
	maxKindMemory    = 1 << 20     // bytes for the sample of one kind
	defaultMemory    = 8 << 20     // bytes for all samples
	kindIdle         = time.Minute // after this time without use a kind may be replaced
)

// Messages counts and samples the messages that one gateway sends.
type Messages struct {
	mu     sync.Mutex
	memory int // bytes for all samples
	kinds  map[KindName]*Kind
}

// KindName identifies a kind of messages.
type KindName struct {
	Method    string // "/package.Service/Method", or "namespace command" of MongoDB
	Direction policy.Direction
}

// Kind holds the counts and the sample of the messages of one method and direction. Its methods may be called from any
// goroutine.
type Kind struct {
	name    KindName
	sampler *reservoir.Sampler
	sizes   sizes

	compressed, compressedBytes atomic.Uint64 // messages that arrived compressed, and their bytes

	used atomic.Int64 // last use, Unix time in seconds
}

// sizes counts messages by the number of bits of their length.
type sizes struct {
	bytes   atomic.Uint64
	buckets [34]atomic.Uint64
}

func (s *sizes) add(n int) {
	s.bytes.Add(uint64(n))
	s.buckets[min(bits.Len(uint(n)), len(s.buckets)-1)].Add(1)
}

// status returns the KindStatus of a kind of messages, without samples.
func (s *sizes) status(method, direction string) KindStatus {
	st := KindStatus{Method: method, Direction: direction, Bytes: s.bytes.Load(), Sizes: []SizeBucket{}}
	for i := range s.buckets {
		if n := s.buckets[i].Load(); n > 0 {
			st.Messages += n
			st.Sizes = append(st.Sizes, SizeBucket{1<<i - 1, n})
		}
	}
	return st
}

// NewMessages returns an empty Messages whose samples take at most memory bytes; 0: 8 MiB.
func NewMessages(memory int) *Messages {
	return &Messages{kinds: map[KindName]*Kind{}, memory: cmp.Or(memory, defaultMemory)}
}

// maxKindCount returns the largest number of kinds. m.mu must be held.
func (m *Messages) maxKindCount() int { return min(max(m.memory/maxKindMemory, 4), maxKinds) }

// Resize changes the memory for all samples, in bytes.
func (m *Messages) Resize(memory int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.memory = memory
	for _, k := range m.kinds {
		k.sampler.Resize(min(maxKindMemory, memory/m.maxKindCount()))
	}
}

// Kind returns the kind for a method and direction, and creates it if necessary. The result is nil if the name is too
// long or too many kinds are in use.
func (m *Messages) Kind(method string, d policy.Direction) *Kind {
	name := KindName{Method: method, Direction: d}
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.kinds[name]
	if k == nil {
		if len(method) > maxMethod || len(m.kinds) >= m.maxKindCount() && !m.dropIdle(now) {
			return nil
		}
		name.Method = strings.Clone(name.Method) // the original may keep a request in memory
		k = m.newKind(name)
		m.kinds[name] = k
	}
	k.used.Store(now.Unix())
	return k
}

func (m *Messages) newKind(name KindName) *Kind {
	return &Kind{name: name, sampler: reservoir.New(min(maxKindMemory, m.memory/m.maxKindCount()), MaxMessageSample, nil)}
}

// dropIdle removes the least recently used kind if it has been idle for kindIdle, and reports whether it did. m.mu
// must be held.
func (m *Messages) dropIdle(now time.Time) bool {
	var oldest *Kind
	for _, k := range m.kinds {
		if oldest == nil || k.used.Load() < oldest.used.Load() {
			oldest = k
		}
	}
	if oldest == nil || now.Unix()-oldest.used.Load() < int64(kindIdle/time.Second) {
		return false
	}
	delete(m.kinds, oldest.name)
	return true
}

// Wants reports whether a message of n bytes should be sampled. If so, the caller must pass it to Observe.
func (k *Kind) Wants(n int) bool { return n <= k.sampler.MaxSample && k.sampler.Skip.Load() <= 0 }

// Observe counts a message, and may keep a copy of it as a sample. It does not keep message itself.
func (k *Kind) Observe(message []byte) {
	k.sizes.add(len(message))
	s := k.sampler
	if len(message) > s.MaxSample {
		return
	}
	if s.Skip.Add(-1) < 0 {
		s.Take(nil, message)
	}
}

// Passed counts an uncompressed message of n bytes that was sent unchanged and without being inspected.
func (k *Kind) Passed(n int) {
	k.sizes.add(n)
	if n <= k.sampler.MaxSample {
		k.sampler.Skip.Add(-1)
	}
}

// PassedCompressed counts a message that arrived compressed and was sent unchanged, in sent bytes.
func (k *Kind) PassedCompressed(sent int) {
	k.compressed.Add(1)
	k.compressedBytes.Add(uint64(sent))
}

// SizeBucket counts the messages of at most UpTo bytes that are longer than those of the previous bucket.
type SizeBucket struct {
	UpTo     uint64 `json:"up_to_bytes"`
	Messages uint64 `json:"messages"`
}

// KindStatus holds statistics of the messages of one method and direction, and nothing of their content.
type KindStatus struct {
	Method    string       `json:"method"`
	Direction string       `json:"direction"`
	Messages  uint64       `json:"messages"`
	Bytes     uint64       `json:"bytes"` // uncompressed
	Sizes     []SizeBucket `json:"sizes"`

	Compressed      uint64 `json:"compressed_messages"` // arrived compressed; not included in the fields above
	CompressedBytes uint64 `json:"compressed_bytes"`

	SampleMessages int `json:"sample_messages"`
	SampleBytes    int `json:"sample_bytes"` // memory taken by the sample
}

// Status returns the state of every kind, those with the most bytes first.
func (m *Messages) Status() []KindStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]KindStatus, 0, len(m.kinds))
	for _, k := range m.kinds {
		all = append(all, k.status())
	}
	slices.SortFunc(all, func(a, b KindStatus) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Method, b.Method), strings.Compare(a.Direction, b.Direction))
	})
	return all
}

// Samples returns how many kinds there are, and the bytes that their samples take.
func (m *Messages) Samples() (kinds, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.kinds {
		_, n := k.sampler.Size()
		bytes += n
	}
	return len(m.kinds), bytes
}

func (k *Kind) status() KindStatus {
	s := k.sizes.status(k.name.Method, k.name.Direction.String())
	s.Compressed, s.CompressedBytes = k.compressed.Load(), k.compressedBytes.Load()
	s.SampleMessages, s.SampleBytes = k.sampler.Size()
	return s
}
