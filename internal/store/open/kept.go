package open

import (
	"context"
	"log/slog"
	"net"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/store"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
)

// keeperConns is how many connections to its upstream a gateway has for itself.
const keeperConns = 2

// KeptDicts are the dictionaries of the Redis server at up, which a gateway keeps there, until end.
func KeptDicts(up gateway.Upstream, local *dict.Set, log *slog.Logger) (dicts *storeredis.Dicts, end func()) {
	up.Stats = nil // not clients' traffic
	client := keeperClient(up, up.Dial)
	dicts = storeredis.NewDicts(storeredis.DictsOptions{Client: client, Local: local, Log: log})
	return dicts, func() { _ = client.Close() }
}

// KeptClusterDicts are those of a cluster. Close them after use.
func KeptClusterDicts(up gateway.Upstream, local *dict.Set, log *slog.Logger) *storeredis.ClusterDicts {
	return storeredis.NewClusterDicts(storeredis.ClusterDictsOptions{
		NewClient: func(dial func(context.Context) (net.Conn, error)) *redis.Client { return keeperClient(up, dial) },
		Local:     local, Log: log,
	})
}

// KeptPause is the operator's word at the Redis server at up, to which dial leads, that nobody is to pack, until end. It
// connects when it is asked.
func KeptPause(up gateway.Upstream, dial func(context.Context) (net.Conn, error)) (p store.Pause, end func()) {
	up.Stats = nil
	client := keeperClient(up, dial)
	return storeredis.NewPause(client), func() { _ = client.Close() }
}

// KeptClusterPause is that of the cluster which any of hosts belong to.
func KeptClusterPause(hosts []gateway.Upstream) (p store.Pause, end func()) {
	var seeds []string
	for _, h := range hosts {
		seeds = append(seeds, h.Address)
	}
	up := hosts[0]
	up.Stats = nil
	o := clientOptions(up)
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: seeds, Dialer: o.Dialer, Username: o.Username, Password: o.Password,
		DialTimeout: AnswerTimeout, ReadTimeout: AnswerTimeout, WriteTimeout: AnswerTimeout,
		PoolSize: 1, DisableIdentity: true, ContextTimeoutEnabled: true, DialerRetries: 1, MaintNotificationsConfig: &noLookup,
	})
	return storeredis.NewPause(client), func() { _ = client.Close() }
}

// keeperClient is a gateway's own client of a server.
func keeperClient(up gateway.Upstream, dial func(context.Context) (net.Conn, error)) *redis.Client {
	return redis.NewClient(&redis.Options{
		Dialer:          func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		Addr:            up.Address, // for its errors
		Username:        up.User,
		Password:        up.Password,
		PoolSize:        keeperConns,
		DisableIdentity: true,

		// A server that is down is noticed at once: Dicts tries again by itself.
		ContextTimeoutEnabled: true,
		DialerRetries:         1,
		MaxRetries:            1,
		ConnMaxLifetime:       storeredis.ConnMaxLifetime,

		MaintNotificationsConfig: &noLookup,
	})
}

// noLookup keeps clients from resolving the server's name when they are made, which takes seconds without DNS.
var noLookup = maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
