package redis

import (
	"context"

	"github.com/cinch-layer/cinch/internal/gateway/redis/cluster"
)

// Ready says whether clients would be served. notes are what is amiss all the same.
func (g *Gateway) Ready(ctx context.Context) (notes []string, err error) {
	up := g.cfg.Upstream
	up.Stats = nil // not a client's traffic
	return nil, cluster.Ping(ctx, up.Dial)
}
