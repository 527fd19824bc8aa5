package open

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/store/tarantool"
)

// Shards finds the shards of a Tarantool server's cluster: the configured ones, or else those that the server
// reports.
type Shards struct {
	up      endpoint.Upstream
	conn    *tarantool.Conn // to the server
	timeout time.Duration   // of each answer
	named   atomic.Pointer[namedShards]
}

// namedShards is the configured list of shards.
type namedShards struct {
	alone bool
	urls  []endpoint.Upstream // none: ask the server
}

// NewShards returns the Shards of the server at up, to which conn is connected. timeout limits each answer.
func NewShards(up endpoint.Upstream, conn *tarantool.Conn, timeout time.Duration) *Shards {
	return &Shards{up: up, conn: conn, timeout: timeout}
}

// Configure sets the shards from a checked configuration.
func (s *Shards) Configure(g *config.Gateway) error {
	servers, err := g.ShardServers(s.up)
	if err != nil {
		return err
	}
	s.named.Store(&namedShards{alone: g.NoShards(), urls: servers})
	return nil
}

// Find lists the shards.
func (s *Shards) Find(ctx context.Context) ([]tarantool.Shard, error) {
	n := s.named.Load()
	switch {
	case n.alone:
		return nil, nil
	case len(n.urls) == 0:
		return tarantool.QueryShards(ctx, s.conn)
	}
	var all []tarantool.Shard
	for _, up := range n.urls {
		all = append(all, tarantool.Shard{ID: up.Address, Own: up.Address == s.up.Address, Addresses: []string{up.Address}})
	}
	slices.SortFunc(all, func(a, b tarantool.Shard) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(all, func(a, b tarantool.Shard) bool { return a.ID == b.ID }), nil
}

// Connect returns a connection to a shard: to the master, or else to the next of its servers that can be
// reached.
func (s *Shards) Connect(shard tarantool.Shard) *tarantool.Conn {
	first := s.server(firstOf(shard.Addresses))
	return tarantool.NewConn(tarantool.Options{
		Dial: func(ctx context.Context) (c net.Conn, err error) {
			err = fmt.Errorf("%w: no address of shard %s is known", endpoint.ErrUnreachable, shard.ID)
			for _, address := range shard.Addresses {
				if c, err = s.server(address).Dial(ctx); err == nil {
					return c, nil
				}
			}
			return nil, err
		},
		User: first.User, Password: first.Password,
		Timeout: s.timeout, Gateway: s.conn.OnGateway(),
	})
}

func firstOf(addresses []string) string {
	if len(addresses) == 0 {
		return ""
	}
	return addresses[0]
}

// server returns how to connect to an address: by its configured URL, or with the upstream's settings.
func (s *Shards) server(address string) endpoint.Upstream {
	for _, up := range s.named.Load().urls {
		if up.Address == address {
			return up
		}
	}
	up := s.up
	up.Network, up.Address = "tcp", address
	if path, unix := strings.CutPrefix(address, "unix:"); unix {
		up.Network, up.Address, up.TLS = "unix", path, nil
	}
	up.Host, _, _ = net.SplitHostPort(up.Address)
	return up
}
