package redis

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
)

// dialer makes connections to the server.
type dialer struct {
	upstream endpoint.Upstream                       // its credentials are the gateway's own
	dialFunc func(context.Context) (net.Conn, error) // connects if that is not always one address; nil: gateway.Dial
	stats    *gateway.Stats
}

// dial connects to the server for a client that has not logged in.
func (d *dialer) dial(ctx context.Context) (net.Conn, error) {
	conn, err := d.dialOwn(ctx)
	if err != nil || !showsCertificate(d.upstream.TLS) {
		return conn, err
	}
	if err := logOut(ctx, conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// dialOwn connects to the server, which may accept the gateway's certificate as a login.
func (d *dialer) dialOwn(ctx context.Context) (net.Conn, error) {
	if d.dialFunc != nil {
		return d.dialFunc(ctx)
	}
	return gateway.Dial(ctx, d.upstream, d.stats)
}

// clientAs returns a client of the server, logged in with login, with one connection that it opens on first
// use. With readOnly it reads from replicas of a cluster.
func (d *dialer) clientAs(login *credentials, database string, readOnly bool) *goredis.Client {
	return goredis.NewClient(clientOptions(d.dial, login, database, readOnly))
}

// ownClient is like clientAs for the gateway's own user.
func (d *dialer) ownClient(database string, readOnly bool) *goredis.Client {
	return goredis.NewClient(clientOptions(d.dialOwn, &credentials{d.upstream.User, d.upstream.Password}, database, readOnly))
}

// longLivedClient is like ownClient for a client that is used as long as the gateway serves. It connects again
// after a while: the address may lead to another server by then, although the former one still answers.
func (d *dialer) longLivedClient() *goredis.Client {
	o := clientOptions(d.dialOwn, &credentials{d.upstream.User, d.upstream.Password}, defaultDatabase, false)
	o.ConnMaxLifetime = longLivedConnTime
	return goredis.NewClient(o)
}

// longLivedConnTime limits the age of a connection of a longLivedClient.
const longLivedConnTime = time.Minute

func clientOptions(dial func(context.Context) (net.Conn, error), login *credentials, database string, readOnly bool) *goredis.Options {
	db, _ := strconv.Atoi(database)
	return &goredis.Options{
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		OnConnect: func(ctx context.Context, c *goredis.Conn) error {
			if readOnly {
				_ = c.ReadOnly(ctx).Err() // it may not be a cluster
			}
			return nil
		},
		Username: login.user, Password: login.password, DB: db,
		Protocol: 2, PoolSize: 1, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, ContextTimeoutEnabled: true,
		ReadTimeout: askTimeout, WriteTimeout: askTimeout,
		// With maintenance notifications go-redis resolves "localhost" for each client.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// RequiresLogin reports whether a server requires a login.
func RequiresLogin(ctx context.Context, up endpoint.Upstream) (required bool, err error) {
	return (&dialer{upstream: up}).requiresLogin(ctx)
}

// requiresLogin sends PING on a connection without a login. A server that requires one refuses that.
func (d *dialer) requiresLogin(ctx context.Context) (required bool, err error) {
	err = endpoint.WithConn(ctx, d.dial, func(c net.Conn) error {
		if _, err := c.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
			return err
		}
		line, err := bufio.NewReaderSize(c, 128).ReadString('\n')
		required = strings.HasPrefix(line, "-NOAUTH")
		return err
	})
	return required, err
}

// Since Redis 8.6 and Valkey 9.1 a server may accept a client's certificate as its login
// (tls-auth-clients-user). Every connection that shows the gateway's certificate then starts as the gateway's
// own user. That is right for the gateway's own connections only; those that serve clients log out first:
// after RESET a connection is like one that has shown no certificate. No ACL can deny RESET to a user, but a
// server's configuration may have renamed it.

// maxLoginAnswer limits the answers about a login, in bytes.
const maxLoginAnswer = 512

// errCertificateLogin reports a server whose connections always have the gateway's login.
var errCertificateLogin = errors.New("the server accepts the gateway's certificate as a login, which clients must not get, and refuses RESET: enable RESET on the server")

// logOut removes the login of a new connection. If the server has no RESET, it checks that the connection has
// no login.
func logOut(ctx context.Context, conn net.Conn) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(askTimeout)
	}
	_ = conn.SetDeadline(deadline)
	in := bufio.NewReaderSize(conn, maxLoginAnswer)
	reset, err := askLine(conn, in, "*1\r\n$5\r\nRESET\r\n")
	if err != nil {
		return err
	}
	if reset != "+RESET" {
		if err := checkLoggedOut(conn, in, reset); err != nil {
			return err
		}
	}
	if in.Buffered() > 0 {
		return fmt.Errorf("unexpected bytes after the answer to RESET: %q", reset)
	}
	return conn.SetDeadline(time.Time{})
}

// checkLoggedOut checks that a connection on which RESET was refused has no login.
func checkLoggedOut(conn net.Conn, in *bufio.Reader, reset string) error {
	whoami, err := askLine(conn, in, "*2\r\n$3\r\nACL\r\n$6\r\nWHOAMI\r\n")
	if err != nil || isLoggedOut(whoami) {
		return err
	}
	if isDefault(whoami) { // by a certificate of that name, or because it needs no password
		login, err := askLine(conn, in, anyPassword)
		if err != nil || login == "+OK" {
			return err
		}
	}
	return fmt.Errorf("%w: %.100q; ACL WHOAMI: %.100q", errCertificateLogin, reset, whoami)
}

// anyPassword logs in as the default user if that needs no password. No user has this one.
const anyPassword = "*3\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$27\r\ncinch: no password is known\r\n"

// isLoggedOut reports whether whoami, the answer to ACL WHOAMI, means no login. Servers without the command
// have no users.
func isLoggedOut(whoami string) bool {
	return strings.HasPrefix(whoami, "-NOAUTH") || strings.HasPrefix(whoami, "-") && isUnknownCommand(whoami)
}

// isDefault reports whether whoami means the default user. A refusal names the user too, and names have no spaces, so
// the refusal of another user begins differently.
func isDefault(whoami string) bool {
	return whoami == "default" || strings.HasPrefix(whoami, "-NOPERM User default has no permissions")
}

// askLine sends a request and returns the line or the string that answers it.
func askLine(conn net.Conn, in *bufio.Reader, request string) (line string, err error) {
	if _, err = conn.Write([]byte(request)); err != nil {
		return "", err
	}
	for range 2 {
		b, err := in.ReadSlice('\n')
		if err != nil {
			return "", fmt.Errorf("no answer when removing the certificate's login: %w", err)
		}
		if line = strings.TrimRight(string(b), "\r\n"); !strings.HasPrefix(line, "$") {
			break
		}
	}
	return line, nil
}

// showsCertificate reports whether connections with this configuration show a certificate to the server.
func showsCertificate(config *tls.Config) bool {
	return config != nil && (len(config.Certificates) > 0 || config.GetClientCertificate != nil)
}
