package open

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/store"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/internal/system/panics"
)

// gatewayConns is the number of connections to its upstream that a gateway keeps for itself.
const gatewayConns = 2

// GatewayDicts returns the Dicts of a gateway whose upstream is the Redis server at up. end closes the connection.
func GatewayDicts(up endpoint.Upstream, local *dict.Set, log *slog.Logger) (dicts *storeredis.Dicts, end func()) {
	client := gatewayClient(up, up.Dial)
	dicts = storeredis.NewDicts(storeredis.DictsOptions{Client: client, Local: local, Log: log})
	return dicts, func() { _ = client.Close() }
}

// GatewayClusterDicts returns the ClusterDicts of a gateway whose upstream is a cluster. Close it after use.
func GatewayClusterDicts(up endpoint.Upstream, local *dict.Set, log *slog.Logger, errors panics.Counter) *storeredis.ClusterDicts {
	return storeredis.NewClusterDicts(storeredis.ClusterDictsOptions{
		NewClient: func(dial func(context.Context) (net.Conn, error)) *redis.Client {
			return gatewayClient(up, dial)
		},
		Local: local, Log: log, Errors: errors,
	})
}

// GatewayPause returns the Pause stored in the Redis server at up, to which dial connects. It connects on first
// use; end closes the connection.
func GatewayPause(up endpoint.Upstream, dial func(context.Context) (net.Conn, error)) (p store.Pause, end func()) {
	client := gatewayClient(up, dial)
	return storeredis.NewPause(client), func() { _ = client.Close() }
}

// GatewayClusterPause returns the Pause stored in the cluster to which any of hosts belong.
func GatewayClusterPause(hosts []endpoint.Upstream) (p store.Pause, end func()) {
	var seeds []string
	for _, h := range hosts {
		seeds = append(seeds, h.Address)
	}
	up := hosts[0]
	o := clientOptions(up)
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: seeds, Dialer: o.Dialer, Username: o.Username, Password: o.Password,
		DialTimeout: AnswerTimeout, ReadTimeout: AnswerTimeout, WriteTimeout: AnswerTimeout,
		PoolSize: 1, DisableIdentity: true, ContextTimeoutEnabled: true, DialerRetries: 1, MaintNotificationsConfig: &noMaintNotifications,
	})
	return storeredis.NewPause(client), func() { _ = client.Close() }
}

// gatewayClient returns a gateway's own client of a server.
func gatewayClient(up endpoint.Upstream, dial func(context.Context) (net.Conn, error)) *redis.Client {
	o := gatewayOptions(up, dial)
	return redis.NewClient(&o)
}

func gatewayOptions(up endpoint.Upstream, dial func(context.Context) (net.Conn, error)) redis.Options {
	return redis.Options{
		Dialer:          func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		Addr:            up.Address, // for error messages
		Username:        up.User,
		Password:        up.Password,
		PoolSize:        gatewayConns,
		DisableIdentity: true,

		// A server that is down must be noticed at once: Dicts retries by itself.
		ContextTimeoutEnabled: true,
		DialerRetries:         1,
		MaxRetries:            1,
		ConnMaxLifetime:       storeredis.ConnMaxLifetime,

		MaintNotificationsConfig: &noMaintNotifications,
	}
}

// Intervals between checks whether a gateway's upstream is itself a gateway, and the number of inconclusive checks
// after which they end: a proxy in between may close the connection at each.
const (
	minChainWait   = time.Second
	maxChainWait   = time.Minute
	maxChainProbes = 5
)

// DetectChain checks the upstreams of a Redis gateway until one shows whether it is itself a gateway, and logs a
// warning if so. It gives up after maxChainProbes inconclusive checks, or when ctx ends.
func DetectChain(ctx context.Context, hosts []endpoint.Upstream, log *slog.Logger) {
	open := 0
	for wait := minChainWait; open < maxChainProbes; wait = min(2*wait, maxChainWait) {
		for _, up := range hosts {
			switch g, sure, err := storeredis.FindGateway(ctx, gatewayOptions(up, up.Dial)); {
			case g != nil:
				WarnChain(log, *g)
				return
			case sure:
				return
			case err == nil:
				open++
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// WarnChain logs that a gateway's upstream is another gateway. That is not an error. But values that were written
// through both gateways can be read only through both.
func WarnChain(log *slog.Logger, g store.Gateway) {
	log.Warn("the upstream is a Cinch gateway itself: values are wrapped twice and can be read through both gateways only; name the server as upstream",
		"gateway_behind", g.Name, "server", g.Upstream)
}

// noMaintNotifications disables maintenance notifications. With them go-redis resolves the server's name when a
// client is created, which takes seconds without DNS.
var noMaintNotifications = maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
