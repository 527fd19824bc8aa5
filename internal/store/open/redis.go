package open

import (
	"context"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/pack"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
)

// Alike gives hosts the TLS settings and the statistics of up.
func Alike(up gateway.Upstream, hosts []gateway.Upstream) []gateway.Upstream {
	for i := range hosts {
		hosts[i].TLS, hosts[i].Stats = up.TLS, up.Stats
	}
	return hosts
}

// ClientOptions are those of a client that walks over a Redis server.
func ClientOptions(up gateway.Upstream) redis.Options {
	return redis.Options{
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == up.Address {
				return up.Dial(ctx)
			}
			other := up // another node of the cluster
			other.Address = addr
			other.Host, _, _ = net.SplitHostPort(addr)
			return other.Dial(ctx)
		},
		Addr: up.Address, Username: up.User, Password: up.Password,
		DialTimeout: AnswerTimeout, ReadTimeout: WalkTimeout, WriteTimeout: WalkTimeout,
		MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, ContextTimeoutEnabled: true,
	}
}

// Targets are what a walk over a Redis store goes through.
func Targets(s *storeredis.Store) []pack.Target {
	var targets []pack.Target
	for _, n := range s.Nodes() {
		for _, s := range n.Spaces() {
			targets = append(targets, pack.Target{Node: n, Space: s})
		}
	}
	return targets
}
