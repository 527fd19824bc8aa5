package main

import (
	"crypto/tls"
	"log/slog"
	"net"

	"github.com/cinch-layer/cinch/internal/admin"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway/tunnel"
)

// tunnelGateways are the ends of tunnels that flags or variables ask for.
func (o serveOptions) tunnelGateways(getenv func(string) string) ([]config.Gateway, error) {
	entries, exits := o.tunnelPairs(getenv)
	list, err := tunnelEnds(config.Tunnel, "peer.zone-b:9480", entries)
	if err != nil {
		return nil, err
	}
	more, err := tunnelEnds(config.TunnelExit, "db.internal:5432", exits)
	return append(list, more...), err
}

func tunnelEnds(protocol, example string, pairs []string) ([]config.Gateway, error) {
	ends, err := readGatewayFlags(protocol, pairs, "LISTEN=HOST:PORT, as in 127.0.0.1:5432="+example)
	var list []config.Gateway
	for _, e := range ends {
		list = append(list, config.TunnelGateway(e.name, protocol, e.listen, e.upstream))
	}
	return list, err
}

// addTunnel makes r an end of a tunnel.
func (p *process) addTunnel(g *config.Gateway, r *running, tls *tls.Config, log *slog.Logger) {
	setting := g.TunnelSetting()
	made := tunnel.NewGateway(tunnel.Config{
		Name:     g.Name,
		Upstream: r.upstream,
		Exit:     g.Protocol == config.TunnelExit,
		TLS:      tls,
		MaxConns: g.MaxConnections,
		Setting:  setting.Setting,
		Auto:     setting.Auto,
		Window:   g.WindowLog(),
		History:  int64(g.History),
		Links:    g.SpareLinks(),
		Engine:   p.engine,
		Stats:    r.stats,
		Log:      log,
	})
	r.gateway, r.tunnelSetting = made, setting.String()
	p.links = append(p.links, made.Links())
	if g.Protocol == config.TunnelExit && (g.TLS == nil || g.TLS.ClientCA == "") && !isLoopback(r.listener.Addr()) {
		log.Warn("tunnel-exit without tls.client_ca: whoever reaches it reaches its upstream", "address", r.listener.Addr().String(), "upstream", r.upstream.String())
	}
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback() // others are unix sockets
}

// describeTunnel is the one line that stands for a tunnel's rules.
func describeTunnel(info *admin.GatewayInfo, r *running) {
	info.Enabled = r.tunnelSetting != "raw"
	info.Rules = []admin.RuleInfo{{Name: "tunnel", Match: "every connection", Setting: r.tunnelSetting}}
}
