package server

import (
	"crypto/tls"
	"net"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway/tunnel"
	"github.com/cinch-layer/cinch/internal/observe/admin"
)

// addTunnel makes r one end of a tunnel.
func (s *shared) addTunnel(g *config.Gateway, r *running, secure *tls.Config) {
	setting := g.TunnelSetting()
	made := tunnel.NewGateway(tunnel.Config{
		Name:     g.Name,
		Upstream: r.upstream,
		Exit:     g.Protocol == config.TunnelExit,
		TLS:      secure,
		MaxConns: g.MaxConnections,
		Setting:  setting.Setting,
		Auto:     setting.Auto,
		Window:   g.WindowLog(),
		History:  int64(g.History),
		Links:    g.SpareLinks(),
		Key:      r.peerKey,
		Engine:   s.engine,
		Requests: s.requests,
		Replies:  s.replies,
		Stats:    r.stats,
		Log:      r.log,
	})
	r.gateway, r.tunnelSetting = made, setting.String()
	s.links = append(s.links, made.Links())
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback() // other listeners are unix sockets
}

// describeTunnel fills in the single line shown in place of rules.
func describeTunnel(info *admin.GatewayInfo, r *running) {
	info.Enabled = r.tunnelSetting != "raw"
	info.Rules = []admin.RuleInfo{{Name: "tunnel", Match: "every connection", Setting: r.tunnelSetting}}
}
