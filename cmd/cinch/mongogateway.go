package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway/mongo"
	"github.com/cinch-layer/cinch/internal/ui"
)

// mongoGateways are the gateways that --mongo or its variable asks for.
func (o serveOptions) mongoGateways(getenv func(string) string) ([]config.Gateway, error) {
	rules := []config.Rule{config.DefaultMongoRule()}
	if len(o.rules) > 0 {
		rules, _ = o.givenRules() // load has checked them
	}
	const example = "LISTEN=URI, as in 127.0.0.1:27018=mongodb://host:27017"
	targets, err := readGatewayFlags("mongo", o.mongoPairs(getenv), example)
	if err != nil {
		return nil, err
	}
	var list []config.Gateway
	for i, t := range targets {
		if i > 0 { // a URI of several hosts has made several
			t.name = fmt.Sprintf("mongo-%d", len(list)+1)
		}
		gateways, err := config.MongoGateways(t.name, t.listen, t.upstream, rules)
		if err != nil {
			return nil, withCode(exitConfig, ui.WithHint(fmt.Errorf("--mongo: %w", err), "write %s", example))
		}
		list = append(list, gateways...)
	}
	return list, nil
}

// addMongo makes r a gateway for MongoDB.
func (p *process) addMongo(l *loaded, g *config.Gateway, r *running, tls *tls.Config, log *slog.Logger) {
	r.kinds = p.newKinds(l, g, log)
	made := mongo.NewGateway(mongo.Config{
		Name:      g.Name,
		Upstream:  r.upstream,
		Members:   g.MongoMembers(r.upstream),
		TLS:       tls,
		Policy:    l.messages[g.Name],
		MaxConns:  g.MaxConnections,
		Advertise: g.Advertise,
		Standby:   g.Standby,
		Topology:  &p.topology,
		Engine:    p.engine,
		Peers:     g.Peers,
		Sample:    g.Sample,
		Kinds:     r.kinds,
		Requests:  p.requests,
		Replies:   p.replies,
		Stats:     r.stats,
		Log:       log,
	})
	r.gateway, r.messages = made, made
	p.mongo = append(p.mongo, made)
	if g.Peers && (g.TLS == nil || g.TLS.ClientCA == "") {
		log.Warn("peers without tls.client_ca: whoever reaches the gateway may fetch the dictionaries of replies, which hold pieces of them")
	}
	if len(g.Standby) > 0 {
		return
	}
	log.Info("drivers connect to this server with", "uri", made.URI(r.listener.Addr()))
}
