package server

import (
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
)

// newGateway builds a gateway that does not listen yet.
func (s *shared) newGateway(l *loaded, g *config.Gateway) (*running, error) {
	stats := gateway.NewStats(g.Name, g.Protocol)
	log := s.log.With("gateway", g.Name)
	up, err := l.cfg.UpstreamOf(g, log)
	if err != nil {
		return nil, err
	}
	secure, err := l.cfg.ServerTLS(g, log)
	if err != nil {
		return nil, err
	}
	key, err := l.cfg.PeerKey(g)
	if err != nil {
		return nil, err
	}
	r := &running{name: g.Name, upstream: up, peerKey: key, stats: stats, effort: gateway.NewEffort(), log: log}
	r.effort.SetLimits(g.Budgets())
	stats.ShowEffort(r.effort)
	if err := s.addProtocol(l, g, r, secure); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// pendingListener stands for a listener while a gateway is built, before it listens.
type pendingListener struct{ net.Listener }

// listen opens the gateway's listeners. Errors are a *ListenError.
func (r *running) listen(o *Options, g *config.Gateway) error {
	l, err := listen(o, g.Listen, g.Name, "gateway "+g.Name)
	if err != nil {
		return err
	}
	r.listener = withProxyHeaders(g, l)
	if r.sentinel != nil {
		if l, err = listen(o, g.Sentinel, g.Name+"-sentinel", "gateway "+g.Name+": sentinel"); err != nil {
			return err
		}
		r.sentinel.Listener = withProxyHeaders(g, l)
	}
	if r.onListen != nil {
		r.onListen()
	}
	return nil
}

// addProtocol sets up r for its protocol.
func (s *shared) addProtocol(l *loaded, g *config.Gateway, r *running, secure *tls.Config) error {
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
		return fmt.Errorf("gateway %s: unsupported protocol: %s", g.Name, g.Protocol)
	}
	return nil
}

// withProxyHeaders wraps l to read PROXY headers, if the configuration asks for them.
func withProxyHeaders(g *config.Gateway, l net.Listener) net.Listener {
	if !g.ProxyProtocol {
		return l
	}
	trusted, _ := g.ProxyTrusted() // was validated
	return &gateway.Proxied{Listener: l, Trusted: trusted}
}

// listen takes over the socket that the process was given for an address or for a name, or else opens one.
// label names the listener in errors.
func listen(o *Options, addr, name, label string) (net.Listener, error) {
	var l net.Listener
	var err error
	if o.listen != nil {
		l, err = o.listen(addr)
	} else {
		l, err = o.Sockets.Listen(addr, name)
	}
	if err != nil {
		return nil, &ListenError{label, err}
	}
	return l, nil
}

// warnSharedHistory warns if clients share a history.
func warnSharedHistory(g *config.Gateway, r *running) {
	if g.LinkHistory() == config.SharedHistory {
		r.log.Warn("link.history is shared: a client that sends chosen bytes through this gateway and sees the sizes on the link can guess what other clients send (CRIME, BREACH); set it to client unless all clients trust each other")
	}
}

// linkHelloTimeout limits how long calls wait to find out that an upstream does not support links. historyIdleTimeout
// is the time after which an idle link's history is dropped. It exceeds the usual interval between two scrapes.
const (
	linkHelloTimeout   = 5 * time.Second
	historyIdleTimeout = 5 * time.Minute
)

// linkConfig returns the settings of links to other gateways, or nil if the gateway has none.
func linkConfig(g *config.Gateway, key []byte) *link.Config {
	if !g.WantsLink() {
		return nil
	}
	o, setting, window := g.LinkOptions()
	return &link.Config{
		Setting: setting.Setting, Auto: setting.Auto, Window: window, History: int64(o.Memory), Key: key,
		HelloTimeout: linkHelloTimeout, IdleTimeout: historyIdleTimeout,
	}
}

// addLinks adds a gateway's link endpoint, and the state that its history streams share, to the metrics. Both may be
// nil.
func (s *shared) addLinks(g *config.Gateway, e *link.Endpoint, l *lanes.Shared) {
	if e != nil {
		s.links = append(s.links, e)
	}
	if l != nil {
		s.lanes = append(s.lanes, lanes.Named{Gateway: g.Name, Shared: l})
	}
}
