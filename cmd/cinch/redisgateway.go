package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/redis"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store/open"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
)

// keeperConns is how many connections to its upstream a gateway has for itself.
const keeperConns = 2

// Between two questions about a dictionary that rules name and the server lacks. It
// doubles from one to the other; both are above what Dicts remembers a failure for.
const (
	firstRefetch = 5 * time.Second
	lastRefetch  = time.Minute

	nodesPoll = 20 * time.Millisecond // between looks whether a cluster's nodes are known
)

// redisKeeper is a gateway's own access to its Redis server, where it keeps the
// dictionaries that values name.
//
// Each has a set of dictionaries of its own. With one for the whole process, who may
// write to one server could make an envelope that names another server's dictionary,
// and read pieces of the values there.
type redisKeeper struct {
	end   func()
	local dict.Set
	dicts keptDicts
	log   *slog.Logger

	ctx    context.Context // ends the work in the background
	cancel context.CancelFunc
	giveUp context.CancelFunc // ends the search for what the last policy named
}

// keptDicts are the dictionaries of a server or of a cluster.
type keptDicts interface {
	autodict.Store
	Ensure(ctx context.Context, c *goredis.Conn, numbers ...uint32) error
	Ready(number uint32) bool
	Recheck(ctx context.Context) error
	Run(ctx context.Context)
}

func newKeeper(log *slog.Logger) *redisKeeper {
	k := &redisKeeper{log: log, giveUp: func() {}}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k
}

// newRedisKeeper makes that of one server, and returns its dictionaries for the gateway too.
func newRedisKeeper(up gateway.Upstream, log *slog.Logger) (*redisKeeper, *storeredis.Dicts) {
	up.Stats = nil // not clients' traffic
	k := newKeeper(log)
	client := keeperClient(up, up.Dial)
	dicts := storeredis.NewDicts(storeredis.DictsOptions{Client: client, Local: &k.local, Log: log})
	k.dicts, k.end = dicts, func() { _ = client.Close() }
	return k, dicts
}

// newClusterKeeper makes that of a cluster, likewise.
func newClusterKeeper(up gateway.Upstream, log *slog.Logger) (*redisKeeper, *storeredis.ClusterDicts) {
	k := newKeeper(log)
	dicts := storeredis.NewClusterDicts(storeredis.ClusterDictsOptions{
		NewClient: func(dial func(context.Context) (net.Conn, error)) *goredis.Client { return keeperClient(up, dial) },
		Local:     &k.local, Log: log,
	})
	k.dicts, k.end = dicts, dicts.Close
	return k, dicts
}

// keeperClient is a gateway's own client of a server.
func keeperClient(up gateway.Upstream, dial func(context.Context) (net.Conn, error)) *goredis.Client {
	return goredis.NewClient(&goredis.Options{
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
	})
}

// adopt makes the dictionaries of a policy usable: files go into the server, and the
// others, of which only the numbers are known, are fetched from it. Until then values
// are sealed without. It does not block, and is not for concurrent use.
func (k *redisKeeper) adopt(files []*codec.Dict, others []uint32) {
	k.giveUp()
	ctx, cancel := context.WithCancel(k.ctx)
	k.giveUp = cancel
	go func() {
		if len(files) > 0 {
			_ = k.dicts.Publish(k.ctx, files...) // Dicts logs trouble, and its Run tries again
		}
		k.fetch(ctx, others)
	}()
}

// fetch looks for dictionaries in the server until all are found.
func (k *redisKeeper) fetch(ctx context.Context, numbers []uint32) {
	told := map[uint32]string{}
	k.awaitNodes(ctx, numbers)
	for wait := firstRefetch; ; wait = min(2*wait, lastRefetch) {
		numbers = slices.DeleteFunc(slices.Clone(numbers), func(n uint32) bool { return k.has(ctx, n, told) })
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

// awaitNodes gives a gateway that starts the moment that it takes to find a cluster's nodes.
func (k *redisKeeper) awaitNodes(ctx context.Context, numbers []uint32) {
	if len(numbers) == 0 {
		return
	}
	for began := time.Now(); time.Since(began) < firstRefetch; {
		if _, err := k.dicts.Dictionary(numbers[0]); !errors.Is(err, storeredis.ErrNoNode) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(nodesPoll):
		}
	}
}

// has reports whether the dictionary was found, and says in the log what is new about that.
func (k *redisKeeper) has(ctx context.Context, number uint32, told map[uint32]string) bool {
	name := fmt.Sprintf("%08x", number)
	_, err := k.dicts.Dictionary(number)
	switch {
	case err == nil && told[number] != "":
		k.log.Info("dictionary was found in the server", "dictionary", name)
	case err != nil && err.Error() != told[number] && ctx.Err() == nil:
		told[number] = err.Error()
		k.log.Warn("a dictionary that rules name can't be fetched, so values are sealed without it", "dictionary", name, "err", err)
	}
	return err == nil
}

func (k *redisKeeper) close() {
	k.cancel()
	k.end()
}

// addRedis makes r a gateway to a Redis server, or to several.
func (p *process) addRedis(l *loaded, g *config.Gateway, r *running, tls *tls.Config, log *slog.Logger) error {
	servers, err := g.RedisServers()
	if err != nil {
		return err
	}
	hosts := open.Alike(r.upstream, servers.Hosts)
	r.others = hosts[1:]
	var made storeGateway
	apply := func(rules *policy.Policy) { made.SetPolicy(rules) }
	cfg := p.redisConfig(g, r, tls, log)
	switch servers.Kind {
	case config.Cluster, config.Sentinel:
		var dicts *storeredis.ClusterDicts
		r.keeper, dicts = newClusterKeeper(r.upstream, log)
		r.auto = p.newAutodict(r, apply, log)
		cfg.Sampler = r.auto
		cluster := redis.ClusterConfig{
			Config: cfg, Seeds: hosts, Dicts: clusterDicts{dicts}, Advertise: g.Advertise, Nodes: g.Nodes,
		}
		if cluster.Sentinel, err = p.sentinel(g, r, &servers); err != nil {
			return err
		}
		several := redis.NewCluster(cluster)
		if made = several; servers.Kind == config.Sentinel {
			r.dial = several.DialPrimary
		}
	default:
		var dicts *storeredis.Dicts
		r.keeper, dicts = newRedisKeeper(r.upstream, log)
		r.auto = p.newAutodict(r, apply, log)
		cfg.Dicts, cfg.Sampler = dicts, r.auto
		made = redis.NewGateway(cfg)
	}
	r.gateway = made
	r.auto.SetRules(l.rules(g.Name))
	return nil
}

// sentinel is nil for a cluster.
func (p *process) sentinel(g *config.Gateway, r *running, servers *config.RedisServers) (*redis.SentinelConfig, error) {
	if servers.Kind != config.Sentinel {
		return nil, nil
	}
	s := &redis.SentinelConfig{
		Sentinels: servers.Hosts, User: servers.SentinelUser, Password: servers.SentinelPassword, Master: servers.Master,
	}
	if g.Sentinel == "" {
		return s, nil
	}
	l, err := listen(g.Sentinel, "gateway "+g.Name+": sentinel")
	if err == nil {
		l = behindProxy(g, l)
	}
	s.Listener, r.sentinel = l, l
	return s, err
}

// storeGateway is a gateway with rules for values.
type storeGateway interface {
	protocolGateway
	SetPolicy(*policy.Policy)
}

// clusterDicts shows a node's dictionaries as the gateway wants them.
type clusterDicts struct{ *storeredis.ClusterDicts }

func (c clusterDicts) Join(id string, dial func(context.Context) (net.Conn, error)) redis.Dicts {
	return c.ClusterDicts.Join(id, dial)
}

func (p *process) redisConfig(g *config.Gateway, r *running, tls *tls.Config, log *slog.Logger) redis.Config {
	return redis.Config{
		Name:     g.Name,
		Upstream: r.upstream,
		TLS:      tls,
		Engine:   p.engine,
		MaxSeal:  int(g.MaxSeal),
		MaxOpen:  int(*g.MaxOpen),
		MaxConns: g.MaxConnections,
		Requests: p.requests,
		Replies:  p.replies,
		Stats:    r.stats,
		Log:      log,

		NoCommandDocs: p.options.toy,
	}
}
