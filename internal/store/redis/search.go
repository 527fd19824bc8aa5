package redis

import (
	"context"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/wire/resp/search"
)

// indexMaxAge limits the age of the list of a store's indexes.
const indexMaxAge = time.Second

// indexView caches the search indexes of a store's nodes.
type indexView struct {
	mu    sync.Mutex
	looks map[string]*search.IndexTracker // by node
	at    time.Time
	found search.Indexes
}

// Indexed reports whether the hash at key may be under a search index, so that it must stay uncompressed. It
// asks the servers at most once a second.
func (s *Store) Indexed(key []byte) bool {
	s.indexes.mu.Lock()
	defer s.indexes.mu.Unlock()
	s.refreshIndexes()
	return s.indexes.found.Covers(key)
}

// IndexesUnknown returns why the search indexes can't be listed, or nil if they can. While they can't, all hashes
// count as indexed.
func (s *Store) IndexesUnknown() error {
	s.indexes.mu.Lock()
	defer s.indexes.mu.Unlock()
	s.refreshIndexes()
	return s.indexes.found.Unknown
}

// refreshIndexes asks all nodes. If one can't be reached, the last result stays. s.indexes.mu must be held.
func (s *Store) refreshIndexes() {
	x := &s.indexes
	if time.Since(x.at) < indexMaxAge {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var all search.Indexes
	for _, n := range s.nodes {
		look := x.looks[n.addr]
		if look == nil {
			if x.looks == nil {
				x.looks = map[string]*search.IndexTracker{}
			}
			look = new(search.IndexTracker)
			x.looks[n.addr] = look
		}
		found := look.Refresh(ctx, func(ctx context.Context, args ...any) (any, error) { return n.client.Do(ctx, args...).Result() }, true)
		if found.Unknown != nil && all.Unknown == nil {
			all.Unknown = found.Unknown
		}
		all.Prefixes = append(all.Prefixes, found.Prefixes...)
	}
	if all.Unknown == nil || isAnswer(all.Unknown) || x.at.IsZero() {
		x.found = all
	}
	x.at = time.Now()
}
