package endpoint

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// DefaultAuthQuery is the SQL query for the name and password hash that pg_authid stores for a user. It needs a
// superuser.
const DefaultAuthQuery = "SELECT rolname, rolpassword FROM pg_catalog.pg_authid WHERE rolname = $1 AND rolcanlogin"

// ParsePostgres parses "postgres://user:password@host:port/database" with libpq's sslmode and sslrootcert. Without
// sslmode the connection is not encrypted. Errors wrap ErrUpstreamURL and show no password.
func ParsePostgres(raw string) (Upstream, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return Upstream{}, fmt.Errorf("%w: write postgres://user:password@host:5432/database", ErrUpstreamURL)
	}
	q := u.Query()
	if q.Get("sslmode") == "" {
		q.Set("sslmode", "disable")
	}
	u.RawQuery = q.Encode()
	c, err := pgconn.ParseConfig(u.String())
	if err != nil {
		return Upstream{}, fmt.Errorf("%w: %w", ErrUpstreamURL, err)
	}
	if len(c.Fallbacks) > 0 {
		return Upstream{}, fmt.Errorf("%w: give one host, and sslmode disable, require, verify-ca or verify-full", ErrUpstreamURL)
	}
	up := Upstream{
		Network: "tcp", Address: net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))), Host: c.Host,
		User: c.User, Password: c.Password, Database: c.Database, TLS: c.TLSConfig,
	}
	if strings.HasPrefix(c.Host, "/") {
		up.Network, up.Address, up.Host = "unix", fmt.Sprintf("%s/.s.PGSQL.%d", c.Host, c.Port), ""
	}
	return up, nil
}
