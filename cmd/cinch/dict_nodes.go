package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/store/open"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
)

// redisDicts is a Redis server, or the primaries of a cluster, each with dictionaries of its own.
type redisDicts struct {
	*storeAccess
	nodes   []dictNode
	cluster *storeredis.Store // nil: it is a server
}

type dictNode struct {
	name  string
	dicts *storeredis.Dicts
	scan  *redis.Options // for connections of their own to every database
}

func openRedisDicts(ctx context.Context, rawURL string) (*redisDicts, error) {
	access, err := openStore(ctx, rawURL)
	if err != nil {
		return nil, err
	}
	s := &redisDicts{storeAccess: access}
	if err := s.lookAround(ctx); err != nil {
		s.Close()
		return nil, access.failure(err)
	}
	return s, nil
}

// lookAround finds the other primaries of a cluster.
func (s *redisDicts) lookAround(ctx context.Context) error {
	info, err := s.client.Info(ctx, "cluster").Result()
	var answer redis.Error
	if err != nil && !errors.As(err, &answer) {
		return err
	}
	if !strings.Contains(info, "cluster_enabled:1") { // or nobody may know: then nothing can be counted either
		s.nodes = []dictNode{{s.name, s.dicts, s.scanOptions(s.options.Addr)}}
		return nil
	}
	if s.cluster, err = storeredis.Open(ctx, storeredis.OpenOptions{Client: s.options}); err != nil {
		return err
	}
	for _, n := range s.cluster.Nodes() {
		dicts := storeredis.NewDicts(storeredis.DictsOptions{Client: n.Client(), Timeout: open.AnswerTimeout, AskAlways: true})
		s.nodes = append(s.nodes, dictNode{n.Name(), dicts, s.scanOptions(n.Name())})
	}
	return nil
}

// Close ends the connections.
func (s *redisDicts) Close() {
	if s.cluster != nil {
		s.cluster.Close()
	}
	s.storeAccess.Close()
}

func (s *redisDicts) scanOptions(addr string) *redis.Options {
	o := s.options
	o.Addr, o.PoolSize = addr, 1
	return &o
}

// collecting is what Collect needs to know of the store.
func (s *redisDicts) collecting() storeredis.CollectOptions {
	var o storeredis.CollectOptions
	for _, n := range s.nodes {
		o.Nodes = append(o.Nodes, storeredis.CollectNode{Dicts: n.dicts, Scan: n.scan})
	}
	if s.cluster != nil {
		o.Layout = s.cluster.Layout
	}
	return o
}

// count counts the values of all nodes that name each dictionary.
func (s *redisDicts) count(ctx context.Context) (map[uint32]int, error) {
	o := s.collecting()
	census, err := o.Count(ctx)
	if err != nil {
		return nil, s.failure(err)
	}
	return census.ByDict, nil
}

func (s *redisDicts) collect(ctx context.Context, wait time.Duration, tell func(string, ...any), numbers []uint32) (all []collected, err error) {
	o := s.collecting()
	o.Wait, o.Tell = wait, tell
	outcomes, err := storeredis.Collect(ctx, o, numbers)
	for _, out := range outcomes {
		all = append(all, newCollected(out.Number, out.Archived, out.Values, out.Reason))
	}
	return all, err
}

func (s *redisDicts) label() string { return s.name }

// Dictionary finds a dictionary in any node.
func (s *redisDicts) Dictionary(number uint32) (*codec.Dict, error) {
	missing := error(cinch.ErrDictMissing)
	for _, n := range s.nodes {
		d, err := n.dicts.Dictionary(number)
		if err == nil {
			return d, nil
		}
		if !errors.Is(err, cinch.ErrDictMissing) {
			missing = s.failure(err)
		}
	}
	return nil, missing
}

// restore makes a dictionary live in all nodes.
func (s *redisDicts) restore(ctx context.Context, d *codec.Dict) error {
	for _, n := range s.nodes {
		if err := n.dicts.Restore(ctx, d); err != nil {
			return s.failure(err)
		}
	}
	return nil
}

// forget erases an archived dictionary from all nodes that have it.
func (s *redisDicts) forget(ctx context.Context, number uint32) error {
	failure := error(storeredis.ErrNotStored)
	for _, n := range s.nodes {
		err := n.dicts.Forget(ctx, number)
		switch {
		case err == nil && errors.Is(failure, storeredis.ErrNotStored):
			failure = nil
		case err != nil && !errors.Is(err, storeredis.ErrNotStored):
			return err
		}
	}
	if failure != nil {
		return fmt.Errorf("forget dictionary %08x: %w", number, failure)
	}
	return nil
}

func (s *redisDicts) listDictionaries(ctx context.Context) ([]storedDict, error) {
	infos, err := s.infos(ctx)
	var all []storedDict
	for _, i := range infos {
		all = append(all, storedDict{i.Number, i.State == storeredis.Archived, describeStored(i, s.name)})
	}
	return all, err
}

// infos lists what the server holds, or each dictionary of a cluster once, with the nodes
// that have it otherwise or not at all as its problem.
func (s *redisDicts) infos(ctx context.Context) ([]storeredis.Info, error) {
	var all []storeredis.Info
	nodesWith := map[uint32]int{}
	for _, n := range s.nodes {
		infos, err := n.dicts.List(ctx)
		if err != nil {
			return nil, s.failure(err)
		}
		if s.cluster == nil {
			return infos, nil
		}
		for _, i := range infos {
			at := slices.IndexFunc(all, func(x storeredis.Info) bool { return x.Number == i.Number })
			if at < 0 {
				all = append(all, i)
			} else if all[at].State != i.State && all[at].Problem == "" {
				all[at].Problem = fmt.Sprintf("%s in %s", i.State, n.name)
			}
			nodesWith[i.Number]++
		}
	}
	for i := range all {
		if n := nodesWith[all[i].Number]; n < len(s.nodes) && all[i].Problem == "" {
			all[i].Problem = fmt.Sprintf("in %d of %d nodes only", n, len(s.nodes))
		}
	}
	return all, nil
}

// records are those of all nodes. One that can't be read tells nothing.
func (s *redisDicts) records(ctx context.Context) ([]storedRecord, error) {
	var all []storedRecord
	for _, n := range s.nodes {
		texts, err := n.dicts.Records(ctx)
		if err != nil {
			return nil, s.failure(err)
		}
		all = appendRecords(all, n.dicts, texts)
	}
	return all, nil
}
