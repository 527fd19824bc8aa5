package main

import (
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway/grpc"
	"github.com/cinch-layer/cinch/internal/link"
)

// grpcGateways are the gateways that --grpc or its variable asks for.
func (o serveOptions) grpcGateways(getenv func(string) string) ([]config.Gateway, error) {
	rules := []config.Rule{config.DefaultGRPCRule()}
	if len(o.rules) > 0 {
		rules, _ = o.givenRules() // load has checked them
	}
	targets, err := readGatewayFlags("grpc", o.grpcPairs(getenv), "LISTEN=URL, as in 127.0.0.1:4317=grpc://host:4317")
	var list []config.Gateway
	for _, t := range targets {
		list = append(list, config.GRPCGateway(t.name, t.listen, t.upstream, rules))
	}
	return list, err
}

// grpcCodecs returns the compressors that the gateways for gRPC share. It makes them, and
// the cache, with the first gateway.
func (p *process) grpcCodecs() *grpccodec.Set {
	if p.grpcSet == nil {
		var o grpccodec.Options
		if p.engine.ZstdName() == "libzstd" {
			o.Zstd, _ = libzstd.New()
		}
		p.grpcSet = grpccodec.NewSet(o)
		p.grpcCache = grpc.NewCache(p.grpcSet)
	}
	return p.grpcSet
}

var linkModes = map[string]grpc.LinkMode{config.ClientHistory: grpc.LinkPerClient, config.SharedHistory: grpc.LinkShared}

func historyOf(g *config.Gateway) string {
	if g.Link == nil {
		return ""
	}
	return g.Link.History
}

// linkHelloTimeout is how long calls may wait to find out that an upstream takes no links;
// linkIdleTimeout is longer than the time between two scrapes.
const (
	linkHelloTimeout = 5 * time.Second
	linkIdleTimeout  = 5 * time.Minute
)

// grpcLinks is about the connections with other gateways; nil where there are none to be.
func grpcLinks(g *config.Gateway) *link.Config {
	if !g.WantsLink() {
		return nil
	}
	o, setting, window := g.LinkOptions()
	return &link.Config{
		Setting: setting.Setting, Auto: setting.Auto, Window: window, History: int64(o.Memory),
		HelloTimeout: linkHelloTimeout, IdleTimeout: linkIdleTimeout,
	}
}

// addGRPC makes r a gateway for gRPC.
func (p *process) addGRPC(l *loaded, g *config.Gateway, r *running, tls *tls.Config, log *slog.Logger) {
	codecs := p.grpcCodecs()
	r.kinds = p.newKinds(l, g, log)
	made := grpc.NewGateway(grpc.Config{
		Name:          g.Name,
		Upstream:      r.upstream,
		TLS:           tls,
		MaxConns:      g.MaxConnections,
		MaxStreams:    g.MaxStreams,
		UpstreamConns: g.UpstreamConnections,
		Window:        int(g.Window),
		MaxHeader:     int(g.MaxHeader),
		MaxSeal:       int(g.MaxSeal),
		MaxOpen:       int(*g.MaxOpen),
		Codecs:        codecs,
		Engine:        p.engine,
		Peers:         g.Peers,
		Links:         grpcLinks(g),
		Link:          linkModes[historyOf(g)],
		Sample:        g.Sample,
		Kinds:         r.kinds,
		Cache:         p.grpcCache,
		UpstreamReads: g.UpstreamEncodings,
		Requests:      p.requests,
		Replies:       p.replies,
		Stats:         r.stats,
		Log:           log,
	})
	made.SetPolicy(l.messages[g.Name])
	if historyOf(g) == config.SharedHistory {
		log.Warn("link.history is shared: who sends chosen bytes through this gateway and sees the sizes on the link can guess what other clients send (CRIME, BREACH); write client unless all clients are of one trust")
	}
	r.gateway, r.messages = made, made
	p.grpc = append(p.grpc, made)
	if e := made.Links(); e != nil {
		p.links = append(p.links, e)
	}
	if g.Peers && (g.TLS == nil || g.TLS.ClientCA == "") {
		log.Warn("peers without tls.client_ca: whoever reaches the gateway may fetch the dictionaries of replies, which hold pieces of them")
	}
	log.Info("point gRPC clients at the gateway instead of its upstream", "clients", r.listener.Addr().String(), "tls", tls != nil)
}
