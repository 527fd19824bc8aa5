package main

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/redis"
	"github.com/cinch-layer/cinch/internal/policy"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
)

// keeperConns is how many connections to its upstream a gateway has for itself.
const keeperConns = 2

// redisKeeper is a gateway's own access to its Redis server, where it keeps the
// dictionaries that values name.
type redisKeeper struct {
	client *goredis.Client
	dicts  *storeredis.Dicts
	ctx    context.Context // ends the work in the background
	cancel context.CancelFunc
}

func (p *process) newRedisKeeper(up gateway.Upstream, log *slog.Logger) *redisKeeper {
	up.Stats = nil // not clients' traffic
	k := &redisKeeper{}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.client = goredis.NewClient(&goredis.Options{
		Dialer:          func(ctx context.Context, _, _ string) (net.Conn, error) { return up.Dial(ctx) },
		Addr:            up.Address, // for its errors
		Username:        up.User,
		Password:        up.Password,
		PoolSize:        keeperConns,
		DisableIdentity: true,
	})
	k.dicts = storeredis.NewDicts(storeredis.DictsOptions{Client: k.client, Local: &p.local, Log: log})
	return k
}

// run puts the dictionaries that the rules name into the server and watches
// over them until close.
func (k *redisKeeper) run(dicts []*codec.Dict) {
	k.publish(dicts)
	k.dicts.Run(k.ctx)
}

// publish makes more dictionaries usable. Trouble is logged by Dicts and tried
// again by its Run; until then rules that name them seal nothing.
func (k *redisKeeper) publish(dicts []*codec.Dict) {
	if len(dicts) > 0 {
		_ = k.dicts.Publish(k.ctx, dicts...)
	}
}

func (k *redisKeeper) close() {
	k.cancel()
	_ = k.client.Close()
}

func (p *process) newRedisGateway(g *config.Gateway, r *running, tls *tls.Config, rules *policy.Policy, log *slog.Logger) protocolGateway {
	return redis.NewGateway(redis.Config{
		Name:     g.Name,
		Upstream: r.upstream,
		TLS:      tls,
		Policy:   rules,
		Engine:   p.engine,
		Dicts:    r.keeper.dicts,
		MaxSeal:  int(g.MaxSeal),
		MaxConns: g.MaxConnections,
		Requests: p.requests,
		Replies:  p.replies,
		Stats:    r.stats,
		Log:      log,
	})
}
