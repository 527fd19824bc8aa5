package server

import (
	"crypto/tls"
	"fmt"
	"log/slog"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/observe/admin"
	"github.com/cinch-layer/cinch/internal/switchover/postgres"
)

// addPostgres makes r a gateway for PostgreSQL.
func (s *shared) addPostgres(l *loaded, g *config.Gateway, r *running, secure *tls.Config) error {
	users, state := l.cfg.PostgresFiles(g)
	resolve := func(url string) (endpoint.Upstream, error) { return l.cfg.UpstreamAt(g, url, r.log) }
	c := postgres.Config{
		Name: g.Name, Upstream: r.upstream, TLS: secure, MaxConns: g.MaxConnections,
		UsersFile: users, AuthQuery: g.AuthQuery, StateFile: state, Resolve: resolve,
		Stats: r.stats, Log: r.log,
	}
	made := postgres.NewGateway(c)
	if err := followMove(made, state, r.log); err != nil {
		return l.cfg.InvalidGateway(g, "state_file", err)
	}
	r.gateway, r.postgres = made, made
	s.postgres = append(s.postgres, made)
	return nil
}

// followMove starts a gateway at the upstream that its clients were last moved to.
func followMove(g *postgres.Gateway, state string, log *slog.Logger) error {
	if state == "" {
		return nil
	}
	to, err := postgres.Remembered(state)
	if err != nil || to == "" {
		return err
	}
	log.Info("clients use the server they were moved to, not the configured upstream", "upstream", config.RedactURL(to), "file", state)
	return g.StartAt(to)
}

// preventHolds prevents holding and moving clients until done is called. It returns an error if a gateway holds
// or moves clients now.
func (s *shared) preventHolds() (done func(), err error) {
	var all []func()
	done = func() {
		for _, d := range all {
			d()
		}
	}
	for _, g := range s.postgres {
		d, err := g.KeepOpen()
		if err != nil {
			done()
			return nil, fmt.Errorf("gateway %s: %w", g.Name(), err)
		}
		all = append(all, d)
	}
	return done, nil
}

// describePostgres fills in the single line shown in place of rules.
func describePostgres(info *admin.GatewayInfo, g *postgres.Gateway) {
	info.Upstream = g.Upstream().String()
	info.Rules = []admin.RuleInfo{{Name: "postgres", Match: "every connection", Setting: "passed through"}}
	if r := g.State().Report; r != nil {
		info.Report = (*admin.Report)(r)
	}
}

// postgresDocuments and postgresActions return the admin API for holding and moving clients of gateways for
// PostgreSQL.
func (s *shared) postgresDocuments() []admin.Document {
	var list []admin.Document
	for _, g := range s.postgres {
		list = append(list, admin.Document{Name: "postgres/" + g.Name(), Get: func() any { return g.State() }})
	}
	return list
}

func (s *shared) postgresActions() []admin.Action {
	var list []admin.Action
	for _, g := range s.postgres {
		for _, c := range g.Controls() {
			list = append(list, admin.Action{Name: "postgres/" + g.Name() + "/" + c.Name, Do: c.Do})
		}
	}
	return list
}
