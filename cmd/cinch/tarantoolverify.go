package main

import (
	"context"
	"fmt"

	"github.com/cinch-layer/cinch/internal/pack"
	"github.com/cinch-layer/cinch/internal/store/open"
	storetarantool "github.com/cinch-layer/cinch/internal/store/tarantool"
)

// shardStore is another shard that a walk over all of them goes to.
type shardStore struct {
	storetarantool.Member
	tuples *open.Tuples
}

// openShards opens the shards that the server belongs with. Where nobody may say who they are the
// walk is over the one server.
func (w *where) openShards(ctx context.Context) error {
	members, err := w.group.Members(ctx, w.name)
	if err != nil && !notSharded(err) {
		return tarantoolFailure(w.name, err)
	}
	for _, m := range members {
		if m.Own {
			continue
		}
		s, err := storetarantool.Open(ctx, m.Conn, storetarantool.OpenOptions{Name: m.Name, ReadOnly: w.readOnly})
		if err != nil {
			return tarantoolFailure(m.Name, err)
		}
		w.others = append(w.others, shardStore{m, &open.Tuples{Store: s, Conn: m.Conn}})
	}
	return nil
}

// lackingShards lists the shards without a dictionary that values of any of them name: these may
// move there.
func (w *where) lackingShards(ctx context.Context, r *pack.Report) (missing []string, err error) {
	numbers := namedBy(r)
	if len(numbers) == 0 {
		return nil, nil
	}
	members, err := w.group.Members(ctx, w.name)
	if err != nil && !notSharded(err) {
		return nil, tarantoolFailure(w.name, err)
	}
	for _, m := range members {
		if err := m.Dicts.Look(ctx); err != nil {
			return nil, tarantoolFailure(m.Name, err)
		}
		for _, n := range numbers {
			if !m.Dicts.Has(n) {
				missing = append(missing, fmt.Sprintf("%s lacks dictionary %08x, which values of the cluster name", m.Name, n))
			}
		}
	}
	return missing, nil
}
