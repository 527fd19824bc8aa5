package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/open"
	storetarantool "github.com/cinch-layer/cinch/internal/store/tarantool"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// tarantoolStore is the storeBackend of a Tarantool server. It reads the schema too.
type tarantoolStore struct {
	access   *storeAccess
	upstream endpoint.Upstream
	conn     *storetarantool.Conn
	shards   *open.Shards
	dicts    *storetarantool.ClusterDicts
}

// newTarantoolAccess sets the access to a server and its shards.
func newTarantoolAccess(r *running, g *config.Gateway) (*tarantoolStore, error) {
	k := newStoreAccess(r.log)
	s := &tarantoolStore{access: k, upstream: r.upstream}
	o := open.TarantoolOptions(s.upstream)
	o.Timeout = open.AnswerTimeout
	var warned sync.Once // conn reconnects often
	o.Gateway = func(_ string, g store.Gateway) error {
		warned.Do(func() { open.WarnChain(r.log, g) })
		return nil
	}
	o.Moved = func() {
		r.log.Info("the upstream's address leads to another server: reading schema and dictionaries there")
		s.dicts.Kick()
	}
	s.conn = storetarantool.NewConn(o)
	s.shards = open.NewShards(s.upstream, s.conn, open.AnswerTimeout)
	own := storetarantool.NewDicts(s.conn, &k.local)
	own.LimitLookups()
	s.dicts = storetarantool.NewClusterDicts(own, storetarantool.ClusterDictsOptions{
		Find: s.shards.Find, Connect: s.shards.Connect, Log: r.log, Errors: r.stats,
	})
	k.dicts, k.backend = s.dicts, s
	r.store = k
	return s, s.shards.Configure(g)
}

// schema reads the server's schema. Errors have hints for the gateway's log.
func (s *tarantoolStore) schema(ctx context.Context) (*schema.Schema, error) {
	read, err := storetarantool.Load(ctx, s.conn)
	switch {
	case errors.Is(err, storetarantool.ErrLogin):
		err = &store.HintedError{Err: err, Help: "put the gateway's own user and password into the upstream's URL: tarantool://user:password@host:3301"}
	case errors.Is(err, storetarantool.ErrDenied):
		err = &store.HintedError{Err: err, Help: "run 'cinch tarantool init', or grant the gateway's user the right to read the schema"}
	}
	return read, err
}

// selectTuple returns the tuple under a key of an index, or nil; see storetarantool.Fetch.
func (s *tarantoolStore) selectTuple(ctx context.Context, space, index uint32, key []byte) ([]byte, error) {
	return storetarantool.Fetch(ctx, s.conn, space, index, key)
}

// warnIfGateway has nothing to do: the connection checks that itself.
func (s *tarantoolStore) warnIfGateway(context.Context) {}

// reconfigure applies a changed list of shards.
func (s *tarantoolStore) reconfigure(g *config.Gateway) {
	if err := s.shards.Configure(g); err != nil {
		s.access.log.Error("the shards can't be read, keeping the old ones", "err", err)
	}
}

func (s *tarantoolStore) isUnavailable(err error) bool { return storetarantool.Unavailable(err) }

func (s *tarantoolStore) pause() store.Pause { return s.dicts.Pause() }

func (s *tarantoolStore) hasFormats() bool { return true }

func (s *tarantoolStore) publishHint() string {
	return "'cinch tarantool init … --user NAME' installs the space for dictionaries, for the user in the upstream's URL; without dictionaries small values hardly shrink"
}

func (s *tarantoolStore) close() {
	s.conn.Close()
	s.dicts.Close()
}

func (s *tarantoolStore) adopt(ctx context.Context, files []*codec.Dict, others []uint32) {
	told := ""
	for wait := firstRefetch; ; wait = min(2*wait, lastRefetch) {
		err := s.tryAdopt(ctx, files, others)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			s.access.log.Info("the dictionaries that rules name are in the server", "dictionaries", len(files)+len(others))
			return
		}
		if err.Error() != told {
			told = err.Error()
			s.access.log.Warn("can't use a rule's dictionary, so values are compressed without it", "err", err, "hint", "'cinch tarantool init' installs the space for dictionaries")
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (s *tarantoolStore) tryAdopt(ctx context.Context, files []*codec.Dict, others []uint32) error {
	if err := s.dicts.Publish(ctx, files...); err != nil {
		return err
	}
	for _, n := range others {
		if err := s.dicts.Adopt(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func (s *tarantoolStore) scanOptions() open.Options {
	return open.Options{Kind: open.Tarantool, Upstream: &s.upstream}
}
