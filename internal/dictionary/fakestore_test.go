package dictionary

import (
	"context"
	"fmt"
	"sync"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy/published"
	"github.com/cinch-layer/cinch/internal/store"
)

// shared is a store in memory with one record, for several gateways.
type shared struct {
	store.Dicts

	mu      sync.Mutex
	dicts   map[uint32]*codec.Dict
	retired map[uint32]bool
	text    string
	version uint64

	published        string // the record of the policy
	publishedVersion uint64

	refused map[string]bool // methods that fail with errCut
	unready bool
	held    int64 // 0: not reported
	servers int
}

func newShared() *shared {
	return &shared{dicts: map[uint32]*codec.Dict{}, retired: map[uint32]bool{}, refused: map[string]bool{}}
}

func (s *shared) lock() (unlock func()) {
	s.mu.Lock()
	return s.mu.Unlock
}

func (s *shared) Dictionary(number uint32) (*codec.Dict, error) {
	defer s.lock()()
	if d := s.dicts[number]; d != nil {
		return d, nil
	}
	return nil, fmt.Errorf("%w: %08x", envelope.ErrDictMissing, number)
}

// DictCost implements store.Dicts.
func (s *shared) DictCost(d *codec.Dict) float64 { return 2*float64(len(d.Content())) + 4<<10 }

func (s *shared) Publish(_ context.Context, dicts ...*codec.Dict) error {
	defer s.lock()()
	if s.refused["Publish"] {
		return errCut
	}
	for _, d := range dicts {
		s.dicts[d.Number()] = d
	}
	return nil
}

func (s *shared) Ready(number uint32) bool {
	defer s.lock()()
	return s.dicts[number] != nil && !s.unready
}

func (s *shared) Retired(number uint32) bool {
	defer s.lock()()
	return s.retired[number]
}

func (s *shared) StoredBytes(context.Context) (bytes int64, servers int, err error) {
	defer s.lock()()
	if s.held == 0 {
		return 0, 0, errCut
	}
	return s.held, max(s.servers, 1), nil
}

func (s *shared) Record(_ context.Context, name string) (string, uint64, error) {
	defer s.lock()()
	if name == published.PolicyRecord {
		return s.published, s.publishedVersion, nil
	}
	if s.refused["Record"] {
		return "", 0, errCut
	}
	return s.text, s.version, nil
}

func (s *shared) ReplaceRecord(_ context.Context, name string, version uint64, text string) (uint64, error) {
	defer s.lock()()
	if name == published.PolicyRecord {
		if version != s.publishedVersion {
			return 0, nil
		}
		s.published, s.publishedVersion = text, version+1
		return s.publishedVersion, nil
	}
	if s.refused["ReplaceRecord"] {
		return 0, errCut
	}
	if version != s.version {
		return 0, nil
	}
	s.text, s.version = text, version+1
	return s.version, nil
}
