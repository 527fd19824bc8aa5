package postgres

import (
	"context"
	"maps"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/switchover/postgres"
)

// connectTime limits a login without another limit: the server may speak another protocol.
const connectTime = 20 * time.Second

// connect logs in to a target as the target's user, with a client's startup parameters, "database" included.
func connect(ctx context.Context, up endpoint.Upstream, parameters map[string]string) (*pgconn.PgConn, error) {
	c, err := pgconn.ParseConfig("host=localhost sslmode=disable")
	if err != nil {
		return nil, err
	}
	c.Host, c.Port = displayAddress(up)
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
	if _, bounded := ctx.Deadline(); !bounded {
		c.ConnectTimeout = connectTime
	}
	c.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	c.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { return postgres.Dial(ctx, up, nil) }
	return pgconn.ConnectConfig(ctx, c)
}

// displayAddress returns a server's address as errors show it.
func displayAddress(up endpoint.Upstream) (host string, port uint16) {
	at, number := up.Host, ""
	if up.Network == "unix" {
		at, number = filepath.Dir(up.Address), filepath.Ext(up.Address)
	} else if _, p, err := net.SplitHostPort(up.Address); err == nil {
		number = "." + p
	}
	n, _ := strconv.ParseUint(strings.TrimPrefix(number, "."), 10, 16)
	return at, uint16(n)
}

// notPassed reports whether a startup parameter is not a setting, or is an option of a protocol that the
// mirror does not speak.
func notPassed(name string) bool {
	switch name {
	case "user", "database", "replication":
		return true
	}
	return len(name) > 5 && name[:5] == "_pq_."
}
