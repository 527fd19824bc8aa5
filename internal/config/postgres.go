package config

import (
	"cmp"
	"log/slog"
	"net/url"
	"strings"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
)

// PostgresGateway returns a gateway for PostgreSQL with defaults for everything but its addresses. Its keys
// may be given as options of the URL.
func PostgresGateway(name, listen, upstream string, _ []Rule) Gateway {
	g := RedisGateway(name, listen, upstream, nil)
	g.Protocol = Postgres
	own := map[string]*string{"users_file": &g.UsersFile, "auth_query": &g.AuthQuery, "state_file": &g.StateFile}
	rest, options, _ := strings.Cut(upstream, "?")
	var kept []string
	for option := range strings.SplitSeq(options, "&") {
		key, value, _ := strings.Cut(option, "=")
		if to := own[key]; to != nil {
			if plain, err := url.QueryUnescape(value); err == nil {
				*to = plain
			}
		} else if option != "" {
			kept = append(kept, option)
		}
	}
	g.Upstream = rest
	if len(kept) > 0 {
		g.Upstream += "?" + strings.Join(kept, "&")
	}
	return g
}

// postgres checks the keys of gateways for PostgreSQL, which have no rules and no exclude, and refuses the keys for
// PostgreSQL in other gateways.
func (v *validator) postgres(g *Gateway, path string) {
	if g.Protocol != Postgres {
		for key, given := range map[string]string{"users_file": g.UsersFile, "auth_query": g.AuthQuery, "state_file": g.StateFile} {
			if given != "" {
				v.add(path+"."+key, "", "is only for protocol: postgres")
			}
		}
		return
	}
	if len(g.Rules) > 0 {
		v.add(path+".rules", "leave them out", "a gateway for PostgreSQL changes no values and has no rules")
	}
	if len(g.Exclude) > 0 {
		v.add(path+".exclude", "", "is only for stores")
	}
	if g.AuthQuery != "" && !strings.Contains(g.AuthQuery, "$1") {
		v.add(path+".auth_query", endpoint.DefaultAuthQuery, "does not use the user, $1")
	}
}

// PostgresFiles returns the paths of the files of a gateway for PostgreSQL.
func (c *Config) PostgresFiles(g *Gateway) (users, state string) {
	return c.path(g.UsersFile), c.path(g.StateFile)
}

// UpstreamAt is like UpstreamOf for another of the gateway's servers, at url; "" means the configured upstream.
func (c *Config) UpstreamAt(g *Gateway, url string, log *slog.Logger) (endpoint.Upstream, error) {
	at := *g
	at.Upstream = cmp.Or(url, g.Upstream)
	return c.UpstreamOf(&at, log)
}
