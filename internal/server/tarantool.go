package server

import (
	"crypto/tls"
	"time"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway/tarantool"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store/open"
)

var sqlModes = map[string]tarantool.SQLMode{
	config.SQLProjection: tarantool.SQLProjection,
	config.SQLPass:       tarantool.SQLPass,
}

// addTarantool makes r a gateway to a Tarantool server.
func (s *shared) addTarantool(l *loaded, g *config.Gateway, r *running, secure *tls.Config) error {
	store, err := newTarantoolAccess(r, g)
	if err != nil {
		return err
	}
	var made *tarantool.Gateway
	r.auto = s.newAutodict(r, func(rules *policy.Policy) { made.SetPolicy(rules) })
	made = tarantool.NewGateway(tarantool.Config{
		Name:        g.Name,
		Upstream:    r.upstream,
		UpstreamURL: open.UpstreamURL(g.Protocol, g.Upstream),
		TLS:         secure,
		Engine:      s.engine,
		Schema:      store.schema,
		ReadTuple:   store.selectTuple,
		Greeted:     store.conn.Follow,
		Dicts:       store.dicts,
		Sampler:     r.auto,
		MaxSeal:     int(g.MaxSeal),
		MaxOpen:     int(*g.MaxOpen),
		MaxConns:    g.MaxConnections,

		GuardLoopback: g.GuardsLoopback(),

		Grace:    time.Duration(s.started.DrainGrace),
		SQL:      sqlModes[g.SQL],
		Requests: s.requests,
		Replies:  s.replies,
		Effort:   r.effort,
		Tracer:   s.tracer,
		Stats:    r.stats,
		Log:      r.log,
	})
	r.gateway = made
	r.auto.SetRules(l.rules(g.Name))
	return nil
}
