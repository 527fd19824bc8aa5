package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	storetarantool "github.com/cinch-layer/cinch/internal/store/tarantool"
)

// tarantoolDicts is a Tarantool server: the master, as replicas receive what is stored there.
type tarantoolDicts struct {
	conn  *storetarantool.Conn
	dicts *storetarantool.Dicts
	name  string
}

func openTarantoolDicts(ctx context.Context, rawURL string) (*tarantoolDicts, error) {
	conn, name, err := connectTarantool(ctx, rawURL)
	if err != nil {
		return nil, err
	}
	return &tarantoolDicts{conn, storetarantool.NewDicts(conn, nil), name}, nil
}

func (s *tarantoolDicts) Close()        { s.conn.Close() }
func (s *tarantoolDicts) label() string { return s.name }

func (s *tarantoolDicts) failure(err error) error { return tarantoolFailure(s.name, err) }

// worded is nil for nil.
func (s *tarantoolDicts) worded(err error) error {
	if err == nil {
		return nil
	}
	return s.failure(err)
}

// Dictionary implements cinch.Dictionaries.
func (s *tarantoolDicts) Dictionary(number uint32) (*codec.Dict, error) {
	d, err := s.dicts.Dictionary(number)
	if err != nil && !errors.Is(err, cinch.ErrDictMissing) {
		return nil, s.failure(err)
	}
	return d, err
}

func (s *tarantoolDicts) listDictionaries(ctx context.Context) ([]storedDict, error) {
	list, err := s.dicts.List(ctx)
	var all []storedDict
	for _, i := range list {
		all = append(all, storedDict{i.Number, i.State == storetarantool.Archived, dictInfo{
			Number: fmt.Sprintf("%08x", i.Number), SHA256: i.Hash, Bytes: i.Bytes, Place: "space", State: string(i.State), Source: s.name,
		}})
	}
	return all, s.worded(err)
}

func (s *tarantoolDicts) records(ctx context.Context) ([]storedRecord, error) {
	texts, err := s.dicts.Records(ctx)
	return appendRecords(nil, s.dicts, texts), s.worded(err)
}

func (s *tarantoolDicts) count(ctx context.Context) (map[uint32]int, error) {
	census, err := storetarantool.Count(ctx, s.conn)
	return census.ByDict, s.worded(err)
}

func (s *tarantoolDicts) collect(ctx context.Context, wait time.Duration, tell func(string, ...any), numbers []uint32) (all []collected, err error) {
	outcomes, err := s.dicts.Collect(ctx, storetarantool.CollectOptions{Wait: wait, Tell: tell}, numbers)
	for _, out := range outcomes {
		all = append(all, newCollected(out.Number, out.Archived, out.Values, out.Reason))
	}
	return all, err
}

func (s *tarantoolDicts) restore(ctx context.Context, d *codec.Dict) error {
	return s.worded(s.dicts.Restore(ctx, d))
}

func (s *tarantoolDicts) forget(ctx context.Context, number uint32) error {
	return s.worded(s.dicts.Forget(ctx, number))
}
