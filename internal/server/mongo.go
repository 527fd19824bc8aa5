package server

import (
	"crypto/tls"
	"time"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway/mongo"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/store/open"
)

var mongoLinks = map[string]mongo.Sharing{config.ClientHistory: mongo.PerAddress, config.SharedHistory: mongo.Shared, config.NoHistory: mongo.NoHistory}

// addMongo makes r a gateway for MongoDB.
func (s *shared) addMongo(l *loaded, g *config.Gateway, r *running, secure *tls.Config) {
	r.kinds = sampled.NewMessages(l.ruleMemory())
	made := mongo.NewGateway(mongo.Config{
		Name:        g.Name,
		Upstream:    r.upstream,
		UpstreamURL: open.UpstreamURL(g.Protocol, g.Upstream),
		Members:     g.MongoMembers(r.upstream),
		TLS:         secure,
		Policy:      l.messages[g.Name],
		MaxConns:    g.MaxConnections,

		GuardLoopback: g.GuardsLoopback(),

		Grace:     time.Duration(s.started.DrainGrace),
		Advertise: g.Advertise,
		Standby:   g.Standby,
		Topology:  &s.topology,
		Engine:    s.engine,
		Peers:     g.Peers,
		Link:      mongoLinks[g.LinkHistory()],
		Links:     linkConfig(g, r.peerKey),
		Sample:    g.Sample,
		Kinds:     r.kinds,
		Requests:  s.requests,
		Replies:   s.replies,
		Effort:    r.effort,
		Tracer:    s.tracer,
		Stats:     r.stats,
		Log:       r.log,
	})
	r.gateway, r.messages = made, made
	s.mongo = append(s.mongo, made)
	s.addLinks(g, made.Links(), nil)
	warnSharedHistory(g, r)
	if len(g.Standby) > 0 {
		return
	}
	r.onListen = func() { r.log.Info("drivers connect to this server with", "uri", made.URI(r.listener.Addr())) }
}
