package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/open"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
)

// nodesPoll is the interval at which awaitNodes checks whether a cluster's nodes are known.
const nodesPoll = 20 * time.Millisecond

// redisStore is the storeBackend of a Redis server or cluster.
type redisStore struct {
	access *storeAccess
	hosts  []endpoint.Upstream                     // at least one of them has to answer
	dial   func(context.Context) (net.Conn, error) // connects to the store if the hosts are Sentinels; else nil
	dicts  redisDicts
	paused store.Pause
	stop   func()
}

// redisDicts holds the dictionaries of a server or cluster. Adopt fetches one that rules name.
type redisDicts interface {
	store.Dicts
	Adopt(ctx context.Context, number uint32) error
}

// newRedisAccess sets the access to one server. It returns the server's dictionaries, which the gateway uses, too.
func newRedisAccess(r *running) *storeredis.Dicts {
	k := newStoreAccess(r.log)
	dicts, end := open.GatewayDicts(r.upstream, &k.local, r.log)
	paused, endPause := open.GatewayPause(r.upstream, func(ctx context.Context) (net.Conn, error) { return gateway.Dial(ctx, r.upstream, r.stats) })
	k.dicts, k.backend = dicts, &redisStore{access: k, hosts: r.servers(), dicts: dicts, paused: paused, stop: func() { end(); endPause() }}
	r.store = k
	return dicts
}

// newClusterAccess is newRedisAccess for a cluster, or for a server found through Sentinels.
func newClusterAccess(r *running, kind string) (*redisStore, *storeredis.ClusterDicts) {
	k := newStoreAccess(r.log)
	dicts := open.GatewayClusterDicts(r.upstream, &k.local, r.log, r.stats)
	s := &redisStore{access: k, hosts: r.servers(), dicts: dicts}
	end := func() {}
	if kind == config.Sentinel {
		s.paused, end = open.GatewayPause(r.upstream, func(ctx context.Context) (net.Conn, error) { return s.dial(ctx) })
	} else {
		s.paused, end = open.GatewayClusterPause(r.servers())
	}
	s.stop = func() { dicts.Close(); end() }
	k.dicts, k.backend = dicts, s
	r.store = k
	return s, dicts
}

func (s *redisStore) close() { s.stop() }

// warnIfGateway asks Sentinels without logging in: the gateway's credentials are for the servers.
func (s *redisStore) warnIfGateway(ctx context.Context) {
	hosts := slices.Clone(s.hosts)
	if s.dial != nil {
		for i := range hosts {
			hosts[i].User, hosts[i].Password = "", ""
		}
	}
	open.DetectChain(ctx, hosts, s.access.log)
}

// reconfigure has nothing to do: a cluster's nodes report its members.
func (s *redisStore) reconfigure(*config.Gateway) {}

func (s *redisStore) isUnavailable(err error) bool { return storeredis.Unavailable(err) }

func (s *redisStore) pause() store.Pause { return s.paused }

func (s *redisStore) hasFormats() bool { return false }

func (s *redisStore) publishHint() string {
	return "name a user in the upstream's URL with the rights +function|list +function|load +function|delete (docs/DICTIONARIES.md), and leave room below maxmemory; without dictionaries small values hardly shrink"
}

func (s *redisStore) adopt(ctx context.Context, files []*codec.Dict, others []uint32) {
	if len(files) > 0 {
		_ = s.dicts.Publish(s.access.ctx, files...) // Dicts logs errors, and its Run tries again
	}
	s.fetch(ctx, others)
}

// fetch looks for dictionaries in the server until all are found.
func (s *redisStore) fetch(ctx context.Context, numbers []uint32) {
	told := map[uint32]string{}
	s.awaitNodes(ctx, numbers)
	for wait := firstRefetch; ; wait = min(2*wait, lastRefetch) {
		numbers = slices.DeleteFunc(slices.Clone(numbers), func(n uint32) bool { return s.has(ctx, n, told) })
		if len(numbers) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// awaitNodes waits until a starting gateway has found a cluster's nodes, at most firstRefetch.
func (s *redisStore) awaitNodes(ctx context.Context, numbers []uint32) {
	if len(numbers) == 0 {
		return
	}
	for began := time.Now(); time.Since(began) < firstRefetch; {
		if err := s.dicts.Adopt(ctx, numbers[0]); !errors.Is(err, storeredis.ErrNoNode) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(nodesPoll):
		}
	}
}

// has reports whether the dictionary was found, and logs a result that differs from the last one.
func (s *redisStore) has(ctx context.Context, number uint32, told map[uint32]string) bool {
	name := fmt.Sprintf("%08x", number)
	err := s.dicts.Adopt(ctx, number)
	switch {
	case err == nil && told[number] != "":
		s.access.log.Info("dictionary found in the server", "dictionary", name)
	case err != nil && err.Error() != told[number] && ctx.Err() == nil:
		told[number] = err.Error()
		s.access.log.Warn("can't fetch a rule's dictionary, so values are compressed without it", "dictionary", name, "err", err)
	}
	return err == nil
}

func (s *redisStore) scanOptions() open.Options {
	return open.Options{Kind: open.Redis, Upstream: &s.hosts[0], Dial: s.dial}
}
