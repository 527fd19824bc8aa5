package dict

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cinch-layer/cinch/codec"
)

// ErrCollision reports two different dictionaries with the same number.
var ErrCollision = errors.New("dictionary number taken")

// Set holds dictionaries by number. It is safe for concurrent use, and lookups take no lock. It only grows: a
// dictionary outlives every value that names it. The zero value is empty.
type Set struct {
	adding sync.Mutex
	byNum  atomic.Pointer[map[uint32]*codec.Dict] // maps are never changed, only replaced
}

// Get returns the dictionary with a number, and false if there is none.
func (s *Set) Get(number uint32) (*codec.Dict, bool) {
	m := s.byNum.Load()
	if m == nil {
		return nil, false
	}
	d, ok := (*m)[number]
	return d, ok
}

// Add adds a dictionary. Adding it again has no effect; the error wraps [ErrCollision] if another one has its
// number.
func (s *Set) Add(d *codec.Dict) error {
	s.adding.Lock()
	defer s.adding.Unlock()
	old, ok := s.Get(d.Number())
	if ok && old.Hash() == d.Hash() {
		return nil
	}
	if ok {
		return fmt.Errorf("%w: %08x", ErrCollision, d.Number())
	}
	grown := make(map[uint32]*codec.Dict)
	if m := s.byNum.Load(); m != nil {
		maps.Copy(grown, *m)
	}
	grown[d.Number()] = d
	s.byNum.Store(&grown)
	return nil
}

// All returns the dictionaries in the order of their numbers. The caller owns the slice.
func (s *Set) All() []*codec.Dict {
	m := s.byNum.Load()
	if m == nil {
		return nil
	}
	byNumber := func(a, b *codec.Dict) int { return cmp.Compare(a.Number(), b.Number()) }
	return slices.SortedFunc(maps.Values(*m), byNumber)
}
