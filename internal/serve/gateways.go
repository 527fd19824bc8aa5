package serve

import (
	"crypto/tls"
	"fmt"
	"net"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/handover"
)

// newGateway listens where the gateway is to, and makes it.
func (s *shared) newGateway(l *loaded, g *config.Gateway) (*running, error) {
	stats := gateway.NewStats(g.Name, g.Protocol)
	log := s.log.With("gateway", g.Name)
	up, err := l.cfg.UpstreamOf(g, log)
	if err != nil {
		return nil, invalid(err)
	}
	up.Stats = stats
	secure, err := l.cfg.ServerTLS(g, log)
	if err != nil {
		return nil, invalid(err)
	}
	listener, err := listen(s.options.Sockets, g.Listen, g.Name, "gateway "+g.Name)
	if err != nil {
		return nil, err
	}
	r := &running{name: g.Name, upstream: up, listener: behindProxy(g, listener), stats: stats, effort: gateway.NewEffort(), log: log}
	r.effort.SetLimits(g.Effort())
	stats.ShowEffort(r.effort)
	if err := s.fill(l, g, r, secure); err != nil {
		r.close()
		return nil, invalid(err)
	}
	return r, nil
}

// fill makes r what its protocol wants.
func (s *shared) fill(l *loaded, g *config.Gateway, r *running, secure *tls.Config) error {
	switch g.Protocol {
	case config.GRPC:
		s.addGRPC(l, g, r, secure)
	case config.HTTP:
		s.addHTTP(l, g, r, secure)
	case config.Mongo:
		s.addMongo(l, g, r, secure)
	case config.Tarantool:
		return s.addTarantool(l, g, r, secure)
	case config.Postgres:
		return s.addPostgres(l, g, r, secure)
	case config.Tunnel, config.TunnelExit:
		s.addTunnel(g, r, secure)
	case config.Redis:
		return s.addRedis(l, g, r, secure)
	default:
		return fmt.Errorf("gateway %s: nothing makes one for protocol: %s", g.Name, g.Protocol)
	}
	return nil
}

// behindProxy is a listener whose connections begin with PROXY headers, if they are to.
func behindProxy(g *config.Gateway, l net.Listener) net.Listener {
	if !g.ProxyProtocol {
		return l
	}
	trusted, _ := g.ProxyTrusted() // was validated
	return &gateway.Proxied{Listener: l, Trusted: trusted}
}

// listen takes over the socket that the process was given for an address, or for name, or listens itself. who is for errors.
func listen(sockets *handover.Sockets, addr, name, who string) (net.Listener, error) {
	l, err := sockets.Listen(addr, name)
	if err != nil {
		return nil, &ListenError{who, err}
	}
	return l, nil
}
