package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway"
	storetarantool "github.com/cinch-layer/cinch/internal/store/tarantool"
)

// tarantoolShards says which servers a Tarantool server belongs with: those that the configuration
// names, or those that the server itself knows.
type tarantoolShards struct {
	up      gateway.Upstream
	conn    *storetarantool.Conn // to the server
	timeout time.Duration        // of each answer
	named   atomic.Pointer[namedShards]
}

// namedShards are what the configuration says of them.
type namedShards struct {
	alone bool
	urls  []gateway.Upstream // none: the server is asked
}

// name takes what the configuration says, which has been checked.
func (s *tarantoolShards) name(g *config.Gateway) error {
	servers, err := g.ShardServers(s.up)
	if err != nil {
		return err
	}
	s.named.Store(&namedShards{alone: g.NoShards(), urls: servers})
	return nil
}

// find lists the shards.
func (s *tarantoolShards) find(ctx context.Context) ([]storetarantool.Shard, error) {
	n := s.named.Load()
	switch {
	case n.alone:
		return nil, nil
	case len(n.urls) == 0:
		return storetarantool.AskShards(ctx, s.conn)
	}
	var all []storetarantool.Shard
	for _, up := range n.urls {
		all = append(all, storetarantool.Shard{ID: up.Address, Own: up.Address == s.up.Address, Addresses: []string{up.Address}})
	}
	slices.SortFunc(all, func(a, b storetarantool.Shard) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(all, func(a, b storetarantool.Shard) bool { return a.ID == b.ID }), nil
}

// connect makes a connection to a shard: to the master, or to the next of its servers that can be had.
func (s *tarantoolShards) connect(shard storetarantool.Shard) *storetarantool.Conn {
	first := s.server(firstOf(shard.Addresses))
	return storetarantool.NewConn(storetarantool.Options{
		Dial: func(ctx context.Context) (c net.Conn, err error) {
			err = fmt.Errorf("%w: no address of shard %s is known", gateway.ErrUnreachable, shard.ID)
			for _, address := range shard.Addresses {
				if c, err = s.server(address).Dial(ctx); err == nil {
					return c, nil
				}
			}
			return nil, err
		},
		User: first.User, Password: first.Password,
		Timeout: s.timeout,
	})
}

func firstOf(addresses []string) string {
	if len(addresses) == 0 {
		return ""
	}
	return addresses[0]
}

// server is how an address is reached: as the configuration says of it, or as the upstream is.
func (s *tarantoolShards) server(address string) gateway.Upstream {
	for _, up := range s.named.Load().urls {
		if up.Address == address {
			up.Stats = nil
			return up
		}
	}
	up := s.up
	up.Stats = nil // not clients' traffic
	up.Network, up.Address = "tcp", address
	if path, unix := strings.CutPrefix(address, "unix:"); unix {
		up.Network, up.Address, up.TLS = "unix", path, nil
	}
	up.Host, _, _ = net.SplitHostPort(up.Address)
	return up
}

// reshard takes the shards of another configuration.
func (k *tarantoolKeeper) reshard(g *config.Gateway) {
	if err := k.shards.name(g); err != nil {
		k.log.Error("the shards can't be read, keeping the old ones", "err", err)
	}
}
