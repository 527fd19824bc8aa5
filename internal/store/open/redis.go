package open

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/store"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
)

// ApplyTLS sets the TLS settings of up on hosts, in place, and returns hosts.
func ApplyTLS(up endpoint.Upstream, hosts []endpoint.Upstream) []endpoint.Upstream {
	for i := range hosts {
		hosts[i].TLS = up.TLS
	}
	return hosts
}

// clientOptions returns the options of a client that walks over a Redis server. It never retries. The library silently
// replaces idle TCP connections that the server has closed. So only the run ID (see store.ScanOptions) shows that the
// server was restarted, and that a walk's cursor means nothing to the new process.
func clientOptions(up endpoint.Upstream) redis.Options {
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
		MaintNotificationsConfig: &noMaintNotifications,
	}
}

// refusingGateways returns o with a dialer that refuses to connect to Cinch gateways.
func refusingGateways(o redis.Options) redis.Options {
	return storeredis.WithGatewayCheck(o, func(address string, g store.Gateway) error { return g.Refusal(address) })
}

// errOneNode: a cluster's dictionaries must be on every node, and a gateway to one node stores them only there.
var errOneNode = errors.New("the upstream is one node of a cluster: write redis+cluster://…, or run 'cinch pack'")

// openRedis opens the server, or all primaries of its cluster.
func openRedis(ctx context.Context, rawURL string, o Options) (store.Store, error) {
	g := config.Gateway{Protocol: config.Redis, Upstream: rawURL}
	servers, err := g.RedisServers()
	if err != nil {
		return nil, badConfig(err)
	}
	up := servers.Hosts[0]
	if o.Upstream != nil {
		up = *o.Upstream
	}
	name := up.String()
	if isMultiServer(rawURL) {
		name = withoutUser(rawURL)
	}
	if o.Dial == nil {
		if up, err = firstServer(ctx, servers, up); err != nil {
			return nil, storeredis.ExplainWalk(name, err)
		}
	}
	s, err := storeredis.Open(ctx, redisWalk(name, up, o))
	if err != nil {
		return nil, storeredis.ExplainWalk(name, err)
	}
	if _, whole := o.Dicts.(*storeredis.ClusterDicts); o.Dicts != nil && s.Cluster() && !whole {
		s.Close()
		return nil, errOneNode
	}
	return s, nil
}

func redisWalk(name string, up endpoint.Upstream, o Options) storeredis.OpenOptions {
	w := storeredis.OpenOptions{Client: clientOptions(up), DBs: o.Databases, Name: name, Local: o.Local, Maintain: o.Dicts == nil, Dicts: o.Dicts}
	if o.Dicts == nil {
		w.Client = refusingGateways(w.Client)
		return w
	}
	w.Name = up.Address
	if o.Dial != nil {
		w.Client.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) { return o.Dial(ctx) }
	}
	w.Client = refusingGateways(w.Client)
	if kept, ok := o.Dicts.(interface {
		Ensure(ctx context.Context, c *redis.Conn, numbers ...uint32) error
	}); ok {
		w.OnConnect = func(ctx context.Context, c *redis.Conn) error { // the connection may lead to a server that took over
			return kept.Ensure(ctx, c, o.Rules.Dictionaries()...)
		}
	}
	return w
}

// openRedisAccess connects to a Redis server, or to one of several.
func openRedisAccess(ctx context.Context, rawURL string, local *dict.Set) (*storeredis.Access, error) {
	name := Redact(rawURL)
	o, err := accessOptions(ctx, rawURL)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = AnswerTimeout, AnswerTimeout, AnswerTimeout
	o.MaxRetries, o.DialerRetries = -1, 1
	o.DisableIdentity, o.ContextTimeoutEnabled = true, true
	return storeredis.NewAccess(ctx, name, refusingGateways(*o), local)
}

// accessOptions returns the options for connecting to the store.
func accessOptions(ctx context.Context, rawURL string) (*redis.Options, error) {
	if isMultiServer(rawURL) {
		g := config.Gateway{Protocol: config.Redis, Upstream: rawURL}
		servers, err := g.RedisServers()
		if err != nil {
			return nil, err
		}
		up, err := firstServer(ctx, servers, servers.Hosts[0])
		if err != nil {
			return nil, &store.HintedError{Err: err, Class: store.ErrUnreachable, Help: "are the servers running, and can they be reached from here?"}
		}
		o := clientOptions(up)
		return &o, nil
	}
	o, err := redis.ParseURL(rawURL)
	var wrapped *url.Error
	switch {
	case config.SplitsPassword(rawURL) && (err != nil || o.Network != "unix"):
		return nil, &store.HintedError{Err: endpoint.ErrUnescaped, Class: store.ErrUsage}
	case errors.As(err, &wrapped):
		return nil, &store.HintedError{Err: errURL, Class: store.ErrUsage}
	}
	return o, err
}

// OpenSample opens a Redis server, or all primaries of a cluster, for a plan. Of a single server it samples the
// database in the URL, unless databases names others.
func OpenSample(ctx context.Context, rawURL string, databases []int) (*storeredis.Store, error) {
	at, err := ParseLocation(rawURL, databases)
	if err != nil {
		return nil, err
	}
	access, err := openRedisAccess(ctx, rawURL, new(dict.Set))
	if err != nil {
		return nil, err
	}
	defer access.Close()
	o := access.Options()
	o.ReadTimeout, o.WriteTimeout = WalkTimeout, WalkTimeout
	s, err := storeredis.Open(ctx, storeredis.OpenOptions{Client: o, DBs: at.Databases, ReadOnly: true, Name: access.Name()})
	return s, storeredis.ExplainPlan(access.Name(), err)
}
