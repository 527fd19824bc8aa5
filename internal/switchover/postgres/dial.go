package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/switchover/pg"
)

// dialTime limits TLS negotiation with the server.
const dialTime = 10 * time.Second

// Dial connects to a server, with TLS if its URL says so. It sends nothing except the request for TLS. Errors wrap
// endpoint.ErrUnreachable. See gateway.Dial for stats.
func Dial(ctx context.Context, up endpoint.Upstream, stats *gateway.Stats) (net.Conn, error) {
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
		return nil, fmt.Errorf("%w: %s: tls: %w", endpoint.ErrUnreachable, up.Address, err)
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
