package mongo

import (
	"fmt"
	"slices"
	"sync"

	"github.com/cinch-layer/cinch/codec"
)

// hashPrefix is how dictionaries are announced: the first bytes of the SHA-256.
type hashPrefix [8]byte

const (
	maxShelf     = 64 << 20 // bytes of dictionaries, in use or not
	maxIdleShelf = 8 << 20  // bytes beyond which those that no connection uses are forgotten
	maxAnnounced = 16       // dictionaries
	minShelved   = 4 << 10  // bytes that each one counts for: it takes more memory than its content
)

// shelf holds the dictionaries that other gateways have given to this one, each once for all
// connections, and for a while for connections to come.
type shelf struct {
	mu    sync.Mutex
	dicts map[[32]byte]*shelved
	bytes int // that all of them count for
	clock uint64
}

type shelved struct {
	dict  *codec.Dict
	users int
	used  uint64 // clock at the last change of users
}

// add returns the dictionary of that content, made or found. Who gets one calls drop once.
func (s *shelf) add(content []byte) (*codec.Dict, error) {
	d, err := codec.NewDict(content)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errPair, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.dicts[d.Hash()]; e != nil {
		return s.use(e), nil
	}
	s.forget(maxIdleShelf - shelvedBytes(d))
	if s.bytes+shelvedBytes(d) > maxShelf {
		return nil, fmt.Errorf("%w: more dictionaries than %d bytes", errPair, maxShelf)
	}
	if s.dicts == nil {
		s.dicts = map[[32]byte]*shelved{}
	}
	e := &shelved{dict: d}
	s.dicts[d.Hash()] = e
	s.bytes += shelvedBytes(d)
	return s.use(e), nil
}

func shelvedBytes(d *codec.Dict) int { return max(len(d.Content()), minShelved) }

// find returns the dictionary of that hash, like add.
func (s *shelf) find(hash []byte) (*codec.Dict, error) {
	if len(hash) != 32 {
		return nil, fmt.Errorf("%w: a hash of %d bytes", errPair, len(hash))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.dicts[[32]byte(hash)]
	if e == nil {
		return nil, fmt.Errorf("%w: a dictionary that is not here", errPair)
	}
	return s.use(e), nil
}

func (s *shelf) use(e *shelved) *codec.Dict {
	e.users++
	s.clock++
	e.used = s.clock
	return e.dict
}

// drop gives a dictionary back; nil is fine.
func (s *shelf) drop(d *codec.Dict) {
	if d == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.dicts[d.Hash()]
	e.users--
	s.clock++
	e.used = s.clock
	s.forget(maxIdleShelf)
}

// forget drops those without users, the oldest first, until there are at most so many bytes.
// s.mu is held.
func (s *shelf) forget(most int) {
	for s.bytes > most {
		var oldest *shelved
		for _, e := range s.dicts {
			if e.users == 0 && (oldest == nil || e.used < oldest.used) {
				oldest = e
			}
		}
		if oldest == nil {
			return
		}
		delete(s.dicts, oldest.dict.Hash())
		s.bytes -= shelvedBytes(oldest.dict)
	}
}

// latest returns those that were used last, like add each.
func (s *shelf) latest() []*codec.Dict {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*codec.Dict
	for len(list) < min(maxAnnounced, len(s.dicts)) {
		var next *shelved
		for _, e := range s.dicts {
			if !slices.Contains(list, e.dict) && (next == nil || e.used > next.used) {
				next = e
			}
		}
		next.users++
		list = append(list, next.dict)
	}
	return list
}

func (s *shelf) size() (bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}
