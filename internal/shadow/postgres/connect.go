package postgres

import (
	"context"
	"maps"
	"net"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/postgres"
)

// connect logs in to a target as its own user, with a client's parameters; "database" among them is one.
func connect(ctx context.Context, up gateway.Upstream, parameters map[string]string) (*pgconn.PgConn, error) {
	c, err := pgconn.ParseConfig("host=localhost sslmode=disable")
	if err != nil {
		return nil, err
	}
	c.User, c.Password, c.Database = up.User, up.Password, up.Database
	c.Fallbacks, c.TLSConfig, c.RuntimeParams = nil, nil, maps.Clone(parameters)
	if c.RuntimeParams == nil {
		c.RuntimeParams = map[string]string{}
	}
	if database, ok := parameters["database"]; ok {
		c.Database = database
	}
	for name := range c.RuntimeParams {
		if notPassed(name) {
			delete(c.RuntimeParams, name)
		}
	}
	c.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	c.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { return postgres.Dial(ctx, up) }
	return pgconn.ConnectConfig(ctx, c)
}

// notPassed names what a startup has beside settings, and options of protocols that are not ours.
func notPassed(name string) bool {
	switch name {
	case "user", "database", "replication":
		return true
	}
	return len(name) > 5 && name[:5] == "_pq_."
}
