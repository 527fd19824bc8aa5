package reservoir

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"github.com/cinch-layer/cinch/internal/policy"
)

// Sampler counts and samples the values of one rule. Observe may be called from any goroutine.
type Sampler struct {
	MaxSample int // bytes; longer values are neither sampled nor counted
	noSample  []policy.Pattern

	Skip   atomic.Int64 // number of values to skip before the next is sampled
	counts counts

	mu     sync.Mutex // guards sample
	sample reservoir
}

// counts are totals of all values of at most MaxSample bytes. They only grow. Bytes are counted as the server
// allocates them, since a dictionary has to save that memory.
type counts struct{ values, rawBytes, storedBytes atomic.Uint64 }

// Snapshot holds the counts of a Sampler at one moment.
type Snapshot struct{ Values, RawBytes, StoredBytes uint64 }

// Minus returns the counts since t.
func (s Snapshot) Minus(t Snapshot) Snapshot {
	return Snapshot{s.Values - t.Values, s.RawBytes - t.RawBytes, s.StoredBytes - t.StoredBytes}
}

// MinValues limits a value's share of the sample's memory to one in MinValues: a single value is not enough to learn
// from.
const MinValues = 64

// New returns a Sampler whose sample takes at most memory bytes. It ignores values longer than maxSample bytes or than
// a MinValues-th of memory. It samples no value whose key matches one of the patterns noSample.
func New(memory, maxSample int, noSample []string) *Sampler {
	s := &Sampler{MaxSample: min(maxSample, memory/MinValues)}
	s.sample = newReservoir(memory, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	for _, glob := range noSample {
		s.noSample = append(s.noSample, policy.Compile(glob))
	}
	return s
}

// Observe counts a value of type t that was stored under key as stored bytes, envelope included. It keeps
// neither key nor value.
func (s *Sampler) Observe(t policy.Type, key, value []byte, stored int) {
	if len(value) > s.MaxSample {
		return
	}
	before, after := policy.Cost(t, len(value), stored)
	s.counts.values.Add(1)
	s.counts.rawBytes.Add(uint64(before))
	s.counts.storedBytes.Add(uint64(after))
	if s.Skip.Add(-1) < 0 {
		s.Take(key, value)
	}
}

// Take adds a value to the sample, unless another goroutine has just added one instead. If the chosen value must
// not be sampled, no other is taken in its place: each value is chosen independently, so the sample of the rest
// stays uniform.
func (s *Sampler) Take(key, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Skip.Load() >= 0 {
		return
	}
	if !s.isExcluded(key) {
		s.sample.add(bytes.Clone(value), identity(key, value))
	}
	s.Skip.Store(s.sample.gap())
}

// identity returns a hash of value and key, the same when a value is written again under its key; 0 without a
// key.
func identity(key, value []byte) uint64 {
	if key == nil {
		return 0
	}
	return xxh3.HashSeed(value, xxh3.Hash(key))
}

func (s *Sampler) isExcluded(key []byte) bool {
	for i := range s.noSample {
		if s.noSample[i].Match(key) {
			return true
		}
	}
	return false
}

// Reset begins a new sample.
func (s *Sampler) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sample.reset()
	s.Skip.Store(0)
}

// Resize changes the memory for the sample, in bytes.
func (s *Sampler) Resize(memory int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sample.resize(memory)
}

// Repeats returns bytes of the sample: of values that occur once, of values that occur more often, each counted once,
// and of all values.
func (s *Sampler) Repeats() (single, again, all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sample.repeats()
}

// Size returns the number of values in the sample, and the bytes that they take in memory.
func (s *Sampler) Size() (values, memory int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sample.items), s.sample.bytes
}

// Values returns the sample in no particular order. The caller must not change the values.
func (s *Sampler) Values() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sample.values()
}

// Snapshot returns the current counts.
func (s *Sampler) Snapshot() Snapshot {
	return Snapshot{s.counts.values.Load(), s.counts.rawBytes.Load(), s.counts.storedBytes.Load()}
}

// IsFull reports whether the sample has had to drop values.
func (s *Sampler) IsFull() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sample.threshold < 1
}
