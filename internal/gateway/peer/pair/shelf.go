package pair

import (
	"container/list"
	"slices"
	"sync"

	"github.com/cinch-layer/cinch/codec"
)

// Limits bound a Shelf, in bytes.
type Limits struct {
	Bytes int // of all dictionaries, in use or not
	Idle  int // beyond which those that no connection uses are forgotten
	Each  int // that each dictionary counts for at least: it takes more memory than its content
}

// Shelf holds the dictionaries that other gateways have given to this one, each once for all
// connections, and for a while for connections to come.
type Shelf struct {
	limits Limits

	mu    sync.Mutex
	dicts map[[32]byte]*shelved
	idle  list.List // of those without users, the one that was used last at the back
	bytes int       // that all of them count for
	clock uint64
}

type shelved struct {
	dict  *codec.Dict
	users int
	used  uint64        // clock when it was last found or dropped
	place *list.Element // among the idle ones; nil while it has users
}

// NewShelf makes an empty shelf.
func NewShelf(l Limits) *Shelf { return &Shelf{limits: l, dicts: map[[32]byte]*shelved{}} }

// Add returns the dictionary that the shelf holds in place of d, or d itself, which it holds
// from then on; nil if there is no room. Each one that is returned is dropped once.
func (s *Shelf) Add(d *codec.Dict) *codec.Dict {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.dicts[d.Hash()]; e != nil {
		return s.use(e)
	}
	n := s.weight(d)
	s.forget(s.limits.Idle - n)
	if s.bytes+n > s.limits.Bytes {
		return nil
	}
	e := &shelved{dict: d}
	s.dicts[d.Hash()] = e
	s.bytes += n
	return s.use(e)
}

// Find returns the dictionary with a hash, like Add; nil if it is not here.
func (s *Shelf) Find(hash [32]byte) *codec.Dict {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.dicts[hash]; e != nil {
		return s.use(e)
	}
	return nil
}

// Latest returns those that were used last, at most so many, like Add each.
func (s *Shelf) Latest(most int) []*codec.Dict {
	s.mu.Lock()
	defer s.mu.Unlock()
	var dicts []*codec.Dict
	for len(dicts) < min(most, len(s.dicts)) {
		var next *shelved
		for _, e := range s.dicts {
			if !slices.Contains(dicts, e.dict) && (next == nil || e.used > next.used) {
				next = e
			}
		}
		s.hold(next)
		dicts = append(dicts, next.dict)
	}
	return dicts
}

// Drop gives a dictionary back; nil is fine.
func (s *Shelf) Drop(d *codec.Dict) {
	if d == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.dicts[d.Hash()]
	s.touch(e)
	if e.users--; e.users == 0 {
		e.place = s.idle.PushBack(e)
	}
	s.forget(s.limits.Idle)
}

// Len returns how many dictionaries are held.
func (s *Shelf) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.dicts)
}

// Bytes returns how much they count for.
func (s *Shelf) Bytes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

func (s *Shelf) weight(d *codec.Dict) int { return max(len(d.Content()), s.limits.Each) }

func (s *Shelf) use(e *shelved) *codec.Dict {
	s.touch(e)
	s.hold(e)
	return e.dict
}

func (s *Shelf) touch(e *shelved) {
	s.clock++
	e.used = s.clock
}

func (s *Shelf) hold(e *shelved) {
	e.users++
	if e.place != nil {
		s.idle.Remove(e.place)
		e.place = nil
	}
}

// forget drops those without users, the oldest first, until all take at most so many bytes.
func (s *Shelf) forget(most int) {
	for s.bytes > most && s.idle.Len() > 0 {
		e := s.idle.Remove(s.idle.Front()).(*shelved)
		delete(s.dicts, e.dict.Hash())
		s.bytes -= s.weight(e.dict)
	}
}
