package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway"
	storetarantool "github.com/cinch-layer/cinch/internal/store/tarantool"
)

// tarantoolDicts is a Tarantool server with the shards that it belongs with, each with dictionaries
// of its own: the masters, as replicas receive what is stored there.
type tarantoolDicts struct {
	conn    *storetarantool.Conn
	group   *storetarantool.Group
	members []storetarantool.Member
	name    string
	alone   error // why it can't be known whether there are others; nil: it is
}

func openTarantoolDicts(ctx context.Context, rawURL string) (*tarantoolDicts, error) {
	first, shards := splitServers(rawURL)
	conn, name, err := connectTarantool(ctx, first)
	if err != nil {
		return nil, err
	}
	up, err := gateway.ParseUpstream(first, tarantoolPort)
	if err != nil {
		return nil, err
	}
	g := config.TarantoolGateway("store", config.DefaultListen, first, nil)
	g.Shards = shards
	s := &tarantoolDicts{conn: conn, name: name}
	if s.group, err = newTarantoolGroup(conn, up, &g, nil); err == nil {
		s.members, err = s.group.Members(ctx, name)
	}
	if notSharded(err) {
		s.alone, err = err, nil
	}
	if err != nil {
		s.Close()
		return nil, s.failure(err)
	}
	return s, nil
}

// Close ends the connections.
func (s *tarantoolDicts) Close() {
	s.conn.Close()
	if s.group != nil {
		s.group.Close()
	}
}

func (s *tarantoolDicts) label() string {
	var names []string
	for _, m := range s.members {
		names = append(names, m.Name)
	}
	return strings.Join(names, ", ")
}

func (s *tarantoolDicts) failure(err error) error { return tarantoolFailure(s.name, err) }

// worded is nil for nil.
func (s *tarantoolDicts) worded(err error) error {
	if err == nil {
		return nil
	}
	return s.failure(err)
}

func (s *tarantoolDicts) dicts() (all []*storetarantool.Dicts) {
	for _, m := range s.members {
		all = append(all, m.Dicts)
	}
	return all
}

// look sees what all shards hold.
func (s *tarantoolDicts) look(ctx context.Context) error {
	for _, m := range s.members {
		if err := m.Dicts.Look(ctx); err != nil {
			return tarantoolFailure(m.Name, err)
		}
	}
	return nil
}

// Dictionary finds a dictionary in any shard.
func (s *tarantoolDicts) Dictionary(number uint32) (*codec.Dict, error) {
	d, err := s.group.Dictionary(number)
	if err != nil && !errors.Is(err, cinch.ErrDictMissing) {
		return nil, s.failure(err)
	}
	return d, err
}

// listDictionaries lists each once, with the shards that have it otherwise or not at all as its problem.
func (s *tarantoolDicts) listDictionaries(ctx context.Context) (all []storedDict, err error) {
	at, shards := map[uint32]int{}, map[uint32]int{}
	for _, m := range s.members {
		list, err := m.Dicts.List(ctx)
		if err != nil {
			return nil, tarantoolFailure(m.Name, err)
		}
		for _, i := range list {
			if n, listed := at[i.Number]; !listed {
				at[i.Number] = len(all)
				all = append(all, storedDict{i.Number, i.State == storetarantool.Archived, dictInfo{
					Number: fmt.Sprintf("%08x", i.Number), SHA256: i.Hash, Bytes: i.Bytes, Place: "space", State: string(i.State), Source: s.name,
				}})
			} else if d := &all[n]; d.info.State != string(i.State) && d.info.Problem == "" {
				d.info.Problem, d.archived = fmt.Sprintf("%s in %s", i.State, m.Name), false
			}
			shards[i.Number]++
		}
	}
	for i := range all {
		if n := shards[all[i].number]; n < len(s.members) && all[i].info.Problem == "" {
			all[i].info.Problem = fmt.Sprintf("in %d of %d shards only", n, len(s.members))
		}
	}
	return all, nil
}

func (s *tarantoolDicts) records(ctx context.Context) (all []storedRecord, err error) {
	for _, m := range s.members {
		texts, err := m.Dicts.Records(ctx)
		if err != nil {
			return nil, tarantoolFailure(m.Name, err)
		}
		all = appendRecords(all, m.Dicts, texts)
	}
	return all, nil
}

func (s *tarantoolDicts) count(ctx context.Context) (map[uint32]int, error) {
	census, err := storetarantool.CountAll(ctx, s.dicts())
	return census.ByDict, s.worded(err)
}

func (s *tarantoolDicts) collect(ctx context.Context, wait time.Duration, tell func(string, ...any), numbers []uint32) (all []collected, err error) {
	outcomes, err := storetarantool.Collect(ctx, s.dicts(), storetarantool.CollectOptions{Wait: wait, Tell: tell}, numbers)
	for _, out := range outcomes {
		all = append(all, newCollected(out.Number, out.Archived, out.Values, out.Reason))
	}
	return all, err
}

// restore makes a dictionary live in all shards.
func (s *tarantoolDicts) restore(ctx context.Context, d *codec.Dict) error {
	for _, m := range s.members {
		if err := m.Dicts.Restore(ctx, d); err != nil {
			return tarantoolFailure(m.Name, err)
		}
	}
	return nil
}

// forget erases an archived dictionary from all shards that have it, again if a gateway has put it
// back from one that still had it.
func (s *tarantoolDicts) forget(ctx context.Context, number uint32) error {
	for erased := false; ; {
		left := 0
		for _, m := range s.members {
			if err := m.Dicts.Look(ctx); err != nil {
				return tarantoolFailure(m.Name, err)
			}
			if m.Dicts.Has(number) {
				left++
			}
		}
		if left == 0 && erased {
			return nil
		}
		for _, m := range s.members {
			if left > 0 && !m.Dicts.Has(number) {
				continue
			}
			if err := m.Dicts.Forget(ctx, number); err != nil {
				return tarantoolFailure(m.Name, err)
			}
		}
		erased = true
	}
}
