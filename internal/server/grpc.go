package server

import (
	"crypto/tls"
	"time"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway/grpc"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
)

var linkModes = map[string]grpc.LinkMode{config.ClientHistory: grpc.LinkPerClient, config.SharedHistory: grpc.LinkShared, config.NoHistory: grpc.NoLink, "": grpc.LinkDefault}

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
		UpstreamConns: max(int(g.UpstreamConnections), 0),
		Window:        int(g.Window),
		MaxHeader:     int(g.MaxHeader),
		MaxCompress:   int(g.MaxSeal),
		MaxOpen:       int(*g.MaxOpen),
		Codecs:        s.grpcCodecs(),
		Engine:        s.engine,
		Peers:         g.Peers,
		Links:         linkConfig(g, r.peerKey),
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
	r.onListen = func() {
		r.log.Info("point gRPC clients at the gateway instead of its upstream", "clients", r.listener.Addr().String(), "tls", secure != nil)
	}
}
