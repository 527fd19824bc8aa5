package server

import (
	"context"
	"time"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway/mongo"
	"github.com/cinch-layer/cinch/internal/gateway/redis"
	"github.com/cinch-layer/cinch/internal/gateway/tarantool"
)

// loginProbeTimeout limits how long a start waits to learn whether the server requires authentication.
const loginProbeTimeout = 2 * time.Second

// refuseOpenListeners returns an error if clients on other machines would reach a server on this machine that
// requires no authentication, and the operator has not allowed that. If the server can't be asked, the
// gateway itself refuses such clients until it answers; see gateway.LoopbackGuard.
func refuseOpenListeners(cfg *config.Config, gateways []*running) error {
	for i, r := range gateways {
		g := &cfg.Gateways[i]
		upstreams := upstreamsOf(r, g)
		if !g.OpensLoopback(upstreams...) {
			continue
		}
		log := r.log.With("listen", g.Listen, "upstream", r.upstream.String())
		switch closed, err := requiresLogin(g.Protocol, upstreams); {
		case closed && err == nil:
		case g.AllowOpenListener:
			log.Warn("other machines reach this gateway, and its server on this machine may require no password: allow_open_listener is set")
		case err != nil:
			log.Warn("other machines reach this gateway, and it is unknown whether its server on this machine requires a password: until the server answers, clients of other machines are refused", "err", err)
		default:
			return asConfigError(cfg.OpenListenerError(g, r.upstream.String()))
		}
	}
	return nil
}

// refuseOpenPeers returns an error if any client on another machine could open links to the gateway, and the operator
// has not allowed that. The gateway must listen already.
func refuseOpenPeers(cfg *config.Config, g *config.Gateway, r *running) error {
	address := r.listener.Addr()
	switch {
	case !g.AcceptsAnyPeer() || isLoopback(address):
		return nil
	case !g.InsecurePeers:
		return asConfigError(cfg.OpenPeersError(g, address.String()))
	}
	r.log.Warn("insecure_peers: any client that reaches the gateway can open links, reach the upstream over them, and use up the memory for histories", "address", address.String())
	return nil
}

// openListenerWarnings returns a problem for each gateway that refuseOpenListeners may refuse. It asks no server.
func openListenerWarnings(cfg *config.Config, gateways []*running) (list []config.Problem) {
	for i, r := range gateways {
		if g := &cfg.Gateways[i]; !g.AllowOpenListener && g.OpensLoopback(upstreamsOf(r, g)...) {
			list = append(list, cfg.OpenListenerWarning(g, r.upstream.String()))
		}
	}
	return list
}

// upstreamsOf returns the servers of a gateway that its configuration names: with Sentinels, none.
func upstreamsOf(r *running, g *config.Gateway) []endpoint.Upstream {
	if servers, err := g.RedisServers(); g.Protocol == config.Redis && err == nil && servers.Kind == config.Sentinel {
		return nil
	}
	all := append([]endpoint.Upstream{r.upstream}, r.others...)
	if g.Protocol == config.Mongo {
		all = append(all, g.MongoMembers(r.upstream)...)
	}
	return all
}

// requiresLogin reports whether the first of the servers on this machine requires authentication.
func requiresLogin(protocol string, upstreams []endpoint.Upstream) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), loginProbeTimeout)
	defer cancel()
	if protocol == config.Mongo {
		return mongo.RequiresLogin(ctx, upstreams)
	}
	up := upstreams[0]
	for _, other := range upstreams {
		if other.OnLoopback() {
			up = other
			break
		}
	}
	if protocol == config.Tarantool {
		return tarantool.RequiresLogin(ctx, up)
	}
	return redis.RequiresLogin(ctx, up)
}
