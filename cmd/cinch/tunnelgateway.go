package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/cinch-layer/cinch/internal/admin"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway/tunnel"
	"github.com/cinch-layer/cinch/internal/ui"
)

// tunnelTargets are the LISTEN=PEER pairs of the flags, else of the environment.
func (o serveOptions) tunnelTargets(getenv func(string) string) (entries, exits []string) {
	entries, exits = o.tunnel, o.tunnelExit
	if len(entries) == 0 {
		entries = strings.Fields(getenv(tunnelVariable))
	}
	if len(exits) == 0 {
		exits = strings.Fields(getenv(tunnelExitVariable))
	}
	return entries, exits
}

// tunnelGateways are the ends of tunnels that flags or variables ask for.
func (o serveOptions) tunnelGateways(getenv func(string) string) ([]config.Gateway, error) {
	entries, exits := o.tunnelTargets(getenv)
	list, err := tunnelEnds(config.Tunnel, "peer.zone-b:9480", entries)
	if err != nil {
		return nil, err
	}
	more, err := tunnelEnds(config.TunnelExit, "db.internal:5432", exits)
	return append(list, more...), err
}

func tunnelEnds(protocol, example string, targets []string) ([]config.Gateway, error) {
	var list []config.Gateway
	for i, target := range targets {
		listen, upstream, ok := strings.Cut(target, "=")
		if !ok {
			err := errors.New("--" + protocol + ": there is no = in it")
			return nil, withCode(exitConfig, ui.WithHint(err, "write LISTEN=HOST:PORT, as in 127.0.0.1:5432=%s", example))
		}
		name := protocol
		if i > 0 {
			name = fmt.Sprintf("%s-%d", protocol, i+1)
		}
		list = append(list, config.TunnelGateway(name, protocol, listen, upstream))
	}
	return list, nil
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
	p.tunnels = append(p.tunnels, made)
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
