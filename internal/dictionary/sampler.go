package dictionary

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"github.com/cinch-layer/cinch/internal/policy"
)

// sampler counts and samples the values of one rule. observe may be called from any goroutine.
type sampler struct {
	maxSample int // bytes; longer values are neither sampled nor counted
	noSample  []policy.Pattern

	skip   atomic.Int64 // number of values to skip before the next is sampled
	counts counts

	mu     sync.Mutex // guards sample
	sample reservoir
}

// counts are totals of all values of at most maxSample bytes. They only grow. Bytes are counted as the server
// allocates them, since a dictionary has to save that memory.
type counts struct{ values, rawBytes, storedBytes atomic.Uint64 }

// snapshot is a snapshot of counts.
type snapshot struct{ values, rawBytes, storedBytes uint64 }

func (s snapshot) minus(t snapshot) snapshot {
	return snapshot{s.values - t.values, s.rawBytes - t.rawBytes, s.storedBytes - t.storedBytes}
}

// minValuesInSample limits a value's share of the sample's memory: a single value is not enough to learn
// from.
const minValuesInSample = 64

func newSampler(memory, maxSample int, noSample []string) *sampler {
	s := &sampler{maxSample: min(maxSample, memory/minValuesInSample)}
	s.sample = newReservoir(memory, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	for _, glob := range noSample {
		s.noSample = append(s.noSample, policy.Compile(glob))
	}
	return s
}

// observe counts a value of type t that was stored under key as stored bytes, envelope included. It keeps
// neither key nor value.
func (s *sampler) observe(t policy.Type, key, value []byte, stored int) {
	if len(value) > s.maxSample {
		return
	}
	before, after := policy.Cost(t, len(value), stored)
	s.counts.values.Add(1)
	s.counts.rawBytes.Add(uint64(before))
	s.counts.storedBytes.Add(uint64(after))
	if s.skip.Add(-1) < 0 {
		s.take(key, value)
	}
}

// take adds a value to the sample, unless another goroutine has just added one instead. If the chosen value must
// not be sampled, no other is taken in its place: each value is chosen independently, so the sample of the rest
// stays uniform.
func (s *sampler) take(key, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.skip.Load() >= 0 {
		return
	}
	if !s.isExcluded(key) {
		s.sample.add(bytes.Clone(value), identity(key, value))
	}
	s.skip.Store(s.sample.gap())
}

// identity returns a hash of value and key, the same when a value is written again under its key; 0 without a
// key.
func identity(key, value []byte) uint64 {
	if key == nil {
		return 0
	}
	return xxh3.HashSeed(value, xxh3.Hash(key))
}

func (s *sampler) isExcluded(key []byte) bool {
	for i := range s.noSample {
		if s.noSample[i].Match(key) {
			return true
		}
	}
	return false
}

// reset begins a new sample.
func (s *sampler) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sample.reset()
	s.skip.Store(0)
}

func (s *sampler) resize(memory int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sample.resize(memory)
}

// repeats calls reservoir.repeats.
func (s *sampler) repeats() (single, again, all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sample.repeats()
}

// size returns the number of values in the sample, and the bytes that they take in memory.
func (s *sampler) size() (values, memory int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sample.items), s.sample.bytes
}

func (s *sampler) values() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sample.values()
}

func (s *sampler) snapshot() snapshot {
	return snapshot{s.counts.values.Load(), s.counts.rawBytes.Load(), s.counts.storedBytes.Load()}
}

// isFull reports whether the sample has had to drop values.
func (s *sampler) isFull() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sample.threshold < 1
}
