package server

import (
	"crypto/tls"
	"time"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway/grpc"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
)

var linkModes = map[string]grpc.LinkMode{config.ClientHistory: grpc.LinkPerClient, config.SharedHistory: grpc.LinkShared, config.NoHistory: grpc.NoLink, "": grpc.LinkDefault}

// warnSharedHistory warns if clients share a history.
func warnSharedHistory(g *config.Gateway, r *running) {
	if g.LinkHistory() == config.SharedHistory {
		r.log.Warn("link.history is shared: a client that sends chosen bytes through this gateway and sees the sizes on the link can guess what other clients send (CRIME, BREACH); set it to client unless all clients trust each other")
	}
}

// warnOpenLinks warns if any client may open links.
func warnOpenLinks(g *config.Gateway, r *running) {
	if g.Peers && acceptsAnyClient(g) {
		r.log.Warn("peers without tls.client_ca: any client that reaches the gateway can make it keep histories, up to link.memory")
	}
}

// linkHelloTimeout limits how long calls wait to find out that an upstream does not support links.
// linkIdleTimeout exceeds the usual interval between two scrapes.
const (
	linkHelloTimeout = 5 * time.Second
	linkIdleTimeout  = 5 * time.Minute
)

// linkConfig returns the settings of links to other gateways, or nil if the gateway has none.
func linkConfig(g *config.Gateway) *link.Config {
	if !g.WantsLink() {
		return nil
	}
	o, setting, window := g.LinkOptions()
	return &link.Config{
		Setting: setting.Setting, Auto: setting.Auto, Window: window, History: int64(o.Memory),
		HelloTimeout: linkHelloTimeout, IdleTimeout: linkIdleTimeout,
	}
}

// addLinks adds the links of a gateway, and what their lanes have in common, to the metrics. Both may be nil.
func (s *shared) addLinks(g *config.Gateway, e *link.Endpoint, l *lanes.Shared) {
	if e != nil {
		s.links = append(s.links, e)
	}
	if l != nil {
		s.lanes = append(s.lanes, lanes.Named{Gateway: g.Name, Shared: l})
	}
}

// addGRPC makes r a gateway for gRPC.
func (s *shared) addGRPC(l *loaded, g *config.Gateway, r *running, secure *tls.Config) {
	r.kinds = sampled.NewMessages(l.ruleMemory())
	made := grpc.NewGateway(grpc.Config{
		Name:          g.Name,
		Upstream:      r.upstream,
		TLS:           secure,
		MaxConns:      g.MaxConnections,
		Grace:         time.Duration(s.started.DrainGrace),
		MaxStreams:    g.MaxStreams,
		UpstreamConns: g.UpstreamConnections,
		Window:        int(g.Window),
		MaxHeader:     int(g.MaxHeader),
		MaxCompress:   int(g.MaxSeal),
		MaxOpen:       int(*g.MaxOpen),
		Codecs:        s.grpcCodecs(),
		Engine:        s.engine,
		Peers:         g.Peers,
		Links:         linkConfig(g),
		Link:          linkModes[g.LinkHistory()],
		Sample:        g.Sample,
		Kinds:         r.kinds,
		Cache:         s.cache(),
		UpstreamReads: g.UpstreamEncodings,
		Requests:      s.requests,
		Replies:       s.replies,
		Effort:        r.effort,
		Tracer:        s.tracer,
		Stats:         r.stats,
		Log:           r.log,
	})
	made.SetPolicy(l.messages[g.Name])
	warnSharedHistory(g, r)
	r.gateway, r.messages, r.grpc = made, made, made
	s.grpc = append(s.grpc, made)
	s.addLinks(g, made.Links(), made.Lanes())
	warnOpenLinks(g, r)
	r.onListen = func() {
		r.log.Info("point gRPC clients at the gateway instead of its upstream", "clients", r.listener.Addr().String(), "tls", secure != nil)
	}
}
