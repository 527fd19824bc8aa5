package redis

import (
	"bufio"
	"context"
	"net"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// dialer makes connections to the server.
type dialer struct {
	upstream gateway.Upstream                        // its credentials are the gateway's own
	to       func(context.Context) (net.Conn, error) // where that is not always one address; nil: upstream's
}

// dial connects to the server for a client that has yet to log in.
func (d *dialer) dial(ctx context.Context) (net.Conn, error) {
	conn, err := d.own(ctx)
	if err != nil || !showsCertificate(d.upstream.TLS) {
		return conn, err
	}
	if err := logOut(ctx, conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// own connects to the server, which may take the gateway's certificate for a login.
func (d *dialer) own(ctx context.Context) (net.Conn, error) {
	if d.to != nil {
		return d.to(ctx)
	}
	return d.upstream.Dial(ctx)
}

// as returns a client of the server with one connection, which it opens when it is
// first used. With readOnly it reads from a replica in a cluster.
func (d *dialer) as(who *credentials, space string, readOnly bool) *goredis.Client {
	return newClient(d.dial, who, space, readOnly)
}

// self is as for the gateway's own user.
func (d *dialer) self(space string, readOnly bool) *goredis.Client {
	return newClient(d.own, &credentials{d.upstream.User, d.upstream.Password}, space, readOnly)
}

func newClient(dial func(context.Context) (net.Conn, error), who *credentials, space string, readOnly bool) *goredis.Client {
	db, _ := strconv.Atoi(space)
	return goredis.NewClient(&goredis.Options{
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		OnConnect: func(ctx context.Context, c *goredis.Conn) error {
			if readOnly {
				_ = c.ReadOnly(ctx).Err() // it may be no cluster
			}
			return nil
		},
		Username: who.user, Password: who.password, DB: db,
		Protocol: 2, PoolSize: 1, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, ContextTimeoutEnabled: true,
		ReadTimeout: askTimeout, WriteTimeout: askTimeout,
	})
}

// AskClosed reports whether a server asks its clients for a login.
func AskClosed(ctx context.Context, up gateway.Upstream) (closed bool, err error) {
	return (&dialer{upstream: up}).askClosed(ctx)
}

// askClosed asks the server, on a connection that doesn't log in, whether it is there: one that asks
// for a login does not say.
func (d *dialer) askClosed(ctx context.Context) (closed bool, err error) {
	err = gateway.Ask(ctx, d.dial, func(c net.Conn) error {
		if _, err := c.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
			return err
		}
		line, err := bufio.NewReaderSize(c, 128).ReadString('\n')
		closed = strings.HasPrefix(line, "-NOAUTH")
		return err
	})
	return closed, err
}
