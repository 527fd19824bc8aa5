package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/wire/pg"
)

// ParseURL parses "postgres://user:password@host:port/database" with libpq's sslmode and sslrootcert. Without
// sslmode the connection is not encrypted. Errors wrap gateway.ErrUpstreamURL and show no password.
func ParseURL(raw string) (gateway.Upstream, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return gateway.Upstream{}, fmt.Errorf("%w: write postgres://user:password@host:5432/database", gateway.ErrUpstreamURL)
	}
	q := u.Query()
	if q.Get("sslmode") == "" {
		q.Set("sslmode", "disable")
	}
	u.RawQuery = q.Encode()
	c, err := pgconn.ParseConfig(u.String())
	if err != nil {
		return gateway.Upstream{}, fmt.Errorf("%w: %w", gateway.ErrUpstreamURL, err)
	}
	if len(c.Fallbacks) > 0 {
		return gateway.Upstream{}, fmt.Errorf("%w: give one host, and sslmode disable, require, verify-ca or verify-full", gateway.ErrUpstreamURL)
	}
	up := gateway.Upstream{
		Network: "tcp", Address: net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))), Host: c.Host,
		User: c.User, Password: c.Password, Database: c.Database, TLS: c.TLSConfig,
	}
	if strings.HasPrefix(c.Host, "/") {
		up.Network, up.Address, up.Host = "unix", fmt.Sprintf("%s/.s.PGSQL.%d", c.Host, c.Port), ""
	}
	return up, nil
}

// dialTime limits TLS negotiation with the server.
const dialTime = 10 * time.Second

// Dial connects to a server, with TLS if its URL says so. No packet but the request for TLS has been sent.
// Errors wrap gateway.ErrUnreachable. See gateway.Dial for stats.
func Dial(ctx context.Context, up gateway.Upstream, stats *gateway.Stats) (net.Conn, error) {
	config := up.TLS
	if config != nil && config.ServerName == "" && !config.InsecureSkipVerify {
		config = config.Clone()
		config.ServerName = up.Host
	}
	up.TLS = nil
	c, err := gateway.Dial(ctx, up, stats)
	if err != nil || config == nil {
		return c, err
	}
	secure, err := negotiateTLS(ctx, c, config)
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("%w: %s: tls: %w", gateway.ErrUnreachable, up.Address, err)
	}
	return secure, nil
}

// negotiateTLS negotiates TLS, and fails if the server has none.
func negotiateTLS(ctx context.Context, c net.Conn, config *tls.Config) (net.Conn, error) {
	end := time.Now().Add(dialTime)
	if at, ok := ctx.Deadline(); ok && at.Before(end) {
		end = at
	}
	if err := c.SetDeadline(end); err != nil {
		return nil, err
	}
	if _, err := c.Write(pg.AppendSSLRequest(nil)); err != nil {
		return nil, err
	}
	var answer [1]byte
	// Read one byte only: whatever follows must arrive within TLS.
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		return nil, err
	}
	if answer[0] != 'S' {
		return nil, errors.New("the server has no TLS: set sslmode=disable, or enable ssl on the server")
	}
	secure := tls.Client(c, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return secure, c.SetDeadline(time.Time{})
}
