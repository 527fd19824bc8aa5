package dictionary

import (
	"cmp"
	"math/bits"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
)

// Limits. They are needed because clients choose the names of methods.
const (
	MaxMessageSample = 16 << 10 // bytes; longer messages are counted, and not sampled
	maxKindMemory    = 1 << 20  // bytes for the sample of one kind
	maxKinds         = 64
	maxMethod        = 512 // bytes of a method's name
	kindIdle         = time.Minute
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
	sampler *sampler
	sizes   sizes

	compressed, compressedBytes atomic.Uint64 // messages that arrived compressed

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

// NewMessages returns an empty Messages, whose samples take at most so many bytes; 0: 8 MiB.
func NewMessages(memory int) *Messages {
	return &Messages{kinds: map[KindName]*Kind{}, memory: cmp.Or(memory, defaultRuleMemory)}
}

// maxKindCount returns the largest number of kinds. m.mu must be held.
func (m *Messages) maxKindCount() int { return min(max(m.memory/maxKindMemory, 4), maxKinds) }

// Resize changes the memory for all samples, in bytes.
func (m *Messages) Resize(memory int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.memory = memory
	for _, k := range m.kinds {
		k.sampler.resize(min(maxKindMemory, memory/m.maxKindCount()))
	}
}

// Kind returns the kind for a method and direction, and creates it if necessary. The result is nil if too many kinds are in
// use.
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
		name.Method = strings.Clone(name.Method) // a copy, not part of a request
		k = m.newKind(name)
		m.kinds[name] = k
	}
	k.used.Store(now.Unix())
	return k
}

func (m *Messages) newKind(name KindName) *Kind {
	k := &Kind{name: name}
	memory := min(maxKindMemory, m.memory/m.maxKindCount())
	k.sampler = &sampler{maxSample: min(MaxMessageSample, memory/minValuesInSample)}
	k.sampler.sample = newReservoir(memory, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	return k
}

// dropIdle removes the least recently used kind if it has been idle long enough. m.mu must be held.
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
func (k *Kind) Wants(n int) bool { return n <= k.sampler.maxSample && k.sampler.skip.Load() <= 0 }

// Observe counts a message. Rarely it keeps a copy of it, and never the message itself.
func (k *Kind) Observe(message []byte) {
	k.sizes.add(len(message))
	s := k.sampler
	if len(message) > s.maxSample {
		return
	}
	if s.skip.Add(-1) < 0 {
		s.take(nil, message)
	}
}

// Passed counts a plain message of n bytes that was sent unchanged and unread.
func (k *Kind) Passed(n int) {
	k.sizes.add(n)
	if n <= k.sampler.maxSample {
		k.sampler.skip.Add(-1)
	}
}

// PassedCompressed counts a message that arrived compressed and was sent unchanged, in sent bytes.
func (k *Kind) PassedCompressed(sent int) {
	k.compressed.Add(1)
	k.compressedBytes.Add(uint64(sent))
}
