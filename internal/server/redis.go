package server

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway/redis"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store/open"
)

// addRedis makes r a gateway to a Redis server, or to several.
func (s *shared) addRedis(l *loaded, g *config.Gateway, r *running, secure *tls.Config) error {
	servers, err := g.RedisServers()
	if err != nil {
		return err
	}
	hosts := open.ApplyTLS(r.upstream, servers.Hosts)
	r.others = hosts[1:]
	var made valueGateway
	apply := func(rules *policy.Policy) { made.SetPolicy(rules) }
	cfg := s.redisConfig(g, r, secure)
	switch servers.Kind {
	case config.Cluster, config.Sentinel:
		store, dicts := newClusterAccess(r, servers.Kind)
		s.manage(g, r, apply)
		cfg.Sampler, cfg.WhatIf = r.auto, r.whatIf.watch
		cluster := redis.ClusterConfig{
			Config: cfg, Seeds: hosts, Advertise: g.Advertise, Nodes: g.Nodes, Follower: dicts,
			JoinDicts: func(id string, dial func(context.Context) (net.Conn, error)) redis.Dicts { return dicts.Join(id, dial) },
			Listen:    func(address string) (net.Listener, error) { return s.options.Sockets.Listen(address, "") },
		}
		cluster.Sentinel = sentinel(g, r, &servers)
		several := redis.NewCluster(cluster)
		if made = several; servers.Kind == config.Sentinel {
			store.dial = several.DialPrimary
		}
	default:
		dicts := newRedisAccess(r)
		s.manage(g, r, apply)
		cfg.Dicts, cfg.Sampler, cfg.WhatIf = dicts, r.auto, r.whatIf.watch
		cfg.SharedConns, cfg.UnsharedClients = g.SharedConnections()
		if s.options.Shared {
			cfg.UnsharedClients = 0
		}
		made = redis.NewGateway(cfg)
	}
	r.gateway = made
	r.auto.SetRules(l.rules(g.Name))
	return nil
}

// sentinel returns nil for a cluster.
func sentinel(g *config.Gateway, r *running, servers *config.RedisServers) *redis.SentinelConfig {
	if servers.Kind != config.Sentinel {
		return nil
	}
	c := &redis.SentinelConfig{
		Sentinels: servers.Hosts, User: servers.SentinelUser, Password: servers.SentinelPassword, Master: servers.Master,
	}
	if g.Sentinel != "" {
		r.sentinel = &pendingListener{}
		c.Listener = r.sentinel
	}
	return c
}

func (s *shared) redisConfig(g *config.Gateway, r *running, secure *tls.Config) redis.Config {
	behind := open.UpstreamURL(g.Protocol, g.Upstream)
	if s.options.Embedded {
		behind = "" // no other process knows its address
	}
	return redis.Config{
		Name:        g.Name,
		Upstream:    r.upstream,
		UpstreamURL: behind,
		TLS:         secure,
		Engine:      s.engine,
		MaxSeal:     int(g.MaxSeal),
		MaxOpen:     int(*g.MaxOpen),
		MaxConns:    g.MaxConnections,

		GuardLoopback: g.GuardsLoopback(),

		Requests: s.requests,
		Replies:  s.replies,
		Effort:   r.effort,
		Tracer:   s.tracer,
		Stats:    r.stats,
		Log:      r.log,

		Grace: time.Duration(s.started.DrainGrace),

		NoCommandDocs: s.options.Embedded,
	}
}
