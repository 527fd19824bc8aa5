package reservoir

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cinch-layer/cinch/internal/policy"
)

// chiSquare compares counts with a uniform distribution.
func chiSquare(counts []int) float64 {
	total := 0
	for _, n := range counts {
		total += n
	}
	want := float64(total) / float64(len(counts))
	sum := 0.0
	for _, n := range counts {
		sum += (float64(n) - want) * (float64(n) - want) / want
	}
	return sum
}

// A value's position in the stream and its length don't affect whether it is in the sample.
func TestReservoirIsUnbiased(t *testing.T) {
	const stream, rounds, groups = 1000, 2000, 20
	random := rand.New(rand.NewPCG(1, 2))
	byPlace, byLength := make([]int, groups), make([]int, groups)
	for range rounds {
		r := newReservoir(20_000, random)
		length := random.Perm(stream)
		skip := r.gap()
		for i := range stream {
			if skip--; skip >= 0 {
				continue
			}
			value := make([]byte, 8+length[i]) // the longest is a hundred times the shortest
			binary.LittleEndian.PutUint64(value, uint64(i))
			r.add(value, 0)
			skip = r.gap()
		}
		for _, v := range r.values() {
			byPlace[binary.LittleEndian.Uint64(v)*groups/stream]++
			byLength[(len(v)-8)*groups/stream]++
		}
	}
	// 19 degrees of freedom: above 43.8 once in a thousand; the generator is seeded.
	if x := chiSquare(byPlace); x > 43.8 {
		t.Errorf("by place: %.1f, %v", x, byPlace)
	}
	if x := chiSquare(byLength); x > 43.8 {
		t.Errorf("by length: %.1f, %v", x, byLength)
	}
}

func TestReservoirIsBounded(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	const most = 50_000
	r := newReservoir(most, random)
	taken := 0
	skip := r.gap()
	for i := range 100_000 {
		if skip--; skip >= 0 {
			continue
		}
		r.add(make([]byte, random.IntN(1000)), 0)
		skip = r.gap()
		taken++
		bytes := 0
		for _, v := range r.values() {
			bytes += len(v) + ItemOverhead
		}
		if bytes != r.bytes || bytes > most {
			t.Fatalf("after %d: %d bytes, it says %d", i, bytes, r.bytes)
		}
	}
	if len(r.values()) < 50 || taken > 2000 {
		t.Errorf("%d values, %d of 100,000 were copied", len(r.values()), taken)
	}
	r.resize(10_000)
	if r.bytes > 10_000 || len(r.values()) == 0 {
		t.Errorf("resized: %d bytes, %d values", r.bytes, len(r.values()))
	}
	r.reset()
	if r.bytes != 0 || r.gap() != 0 {
		t.Error("reset")
	}
}

func TestSampler(t *testing.T) {
	s := New(100_000, 1000, []string{"secret:*"})
	s.Observe(policy.String, []byte("k"), make([]byte, 1001), 1001)
	if s.Snapshot().Values != 0 {
		t.Error("a value that is too long was counted")
	}
	value := []byte("a value")
	s.Observe(policy.String, []byte("k"), value, 5)
	value[0] = 'X' // the caller owns it
	s.Observe(policy.String, []byte("secret:1"), []byte("password"), 8)
	if got := s.Values(); len(got) != 1 || string(got[0]) != "a value" {
		t.Errorf("%q", got)
	}
	if got := s.Snapshot(); got != (Snapshot{2, 64, 64}) {
		t.Errorf("%+v", got)
	}
}

// With many writers the limit holds, and few values cost an allocation.
func TestSamplerConcurrently(t *testing.T) {
	const memory = 64 << 10
	s := New(memory, 1000, nil)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 20_000 {
				s.Observe(policy.String, []byte("k"), fmt.Appendf(nil, "%d/%d", g, i), 5)
			}
		})
	}
	for range 100 {
		s.Values()
		s.Reset()
	}
	all.Wait()
	if n, bytes := s.Size(); bytes > memory || n == 0 {
		t.Errorf("%d values in %d bytes", n, bytes)
	}
	if s.Snapshot().Values != 80_000 {
		t.Errorf("%d were counted", s.Snapshot().Values)
	}
}
