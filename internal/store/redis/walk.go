package redis

import (
	"context"
	"fmt"

	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

// Store implements store.Store.
var _ store.Store = (*Store)(nil)

// Name implements store.Access.
func (s *Store) Name() string { return s.name }

// Explain implements store.Access.
func (s *Store) Explain(err error) error { return ExplainWalk(s.name, err) }

// DictAdmin implements store.Access.
func (s *Store) DictAdmin() store.DictAdmin {
	return &dictAdmin{name: s.name, nodes: func(context.Context) (*Nodes, error) { return s.dicts.Load(), nil }, explain: s.Explain}
}

// Value implements store.Access, for keys of database 0.
func (s *Store) Value(ctx context.Context, a store.Address) ([]byte, error) {
	if s.cluster != nil {
		return readValue(ctx, s.cluster, s.name, a)
	}
	return readValue(ctx, s.nodes[0].client, s.name, a)
}

// Dicts implements store.Store.
func (s *Store) Dicts() store.Dicts {
	if s.kept != nil {
		return s.kept
	}
	return s.dicts.Load()
}

// Targets implements store.Store.
func (s *Store) Targets() (all []store.Target) {
	for _, n := range s.nodes {
		for _, space := range n.spaces {
			all = append(all, store.Target{Node: n, Space: space})
		}
	}
	return all
}

// Moved implements store.Store: it reports whether slots have moved since the store was opened.
func (s *Store) Moved(ctx context.Context) (bool, error) {
	layout, err := s.Layout(ctx)
	return err == nil && layout != s.opened, err
}

// CompressionRules implements store.Store.
func (s *Store) CompressionRules(*policy.Policy) store.CompressionRules {
	return store.CompressionRules{Indexed: s.Indexed, Incomplete: func() error {
		err := s.IndexesUnknown()
		if err != nil {
			err = fmt.Errorf("no hash is compressed: the server has a search module and its indexes can't be listed, which needs +command|info +ft._list +ft.info: %w", err)
		}
		return err
	}}
}

// CanRead implements store.Store.
func (s *Store) CanRead(store.ReadOptions) error { return nil }

// Unavailable implements store.Store.
func (s *Store) Unavailable(err error) bool { return Unavailable(err) }

// MemorySetting implements store.Store.
func (s *Store) MemorySetting() string { return "maxmemory" }
