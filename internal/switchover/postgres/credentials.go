package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
)

// Clients log in with their own passwords, which the gateway does not have. To log a session in at another
// server it uses, like PgBouncer:
//
//	a file of users       passwords, or what pg_authid stores of them
//	a query for a user    run on the new server by the gateway's own user
//	the client's login    after SCRAM a proof, from which the client's key follows once the verifier is
//	                      known (pg/scram.go); after a login in clear text the password
//
// For MD5, the value that pg_authid stores is sufficient.

// secrets looks up passwords and verifiers of users, for one move.
type secrets struct {
	file  map[string]string
	conn  *pgconn.PgConn // nil: the gateway has no user of its own
	query string

	mu    sync.Mutex
	known map[string]string // results of the query
}

func (g *Gateway) secrets(ctx context.Context, up endpoint.Upstream) (x *secrets, err error) {
	x = &secrets{query: g.cfg.AuthQuery, known: map[string]string{}}
	if x.query == "" {
		x.query = endpoint.DefaultAuthQuery
	}
	if g.cfg.UsersFile != "" {
		if x.file, err = readUsers(g.cfg.UsersFile); err != nil {
			return nil, err
		}
	}
	if up.User == "" {
		return x, nil
	}
	if x.conn, err = ownConnection(ctx, up); err != nil {
		return nil, fmt.Errorf("log in as the gateway's own user %s: %w", up.User, err)
	}
	return x, nil
}

func (x *secrets) close(ctx context.Context) {
	if x.conn != nil {
		_ = x.conn.Close(ctx)
	}
}

// ownConnection connects as the gateway's own user.
func ownConnection(ctx context.Context, up endpoint.Upstream) (*pgconn.PgConn, error) {
	c, err := pgconn.ParseConfig("host=localhost sslmode=disable")
	if err != nil {
		return nil, err
	}
	c.User, c.Password, c.Database = up.User, up.Password, up.Database
	if c.Database == "" {
		c.Database = "postgres"
	}
	c.Fallbacks, c.TLSConfig, c.RuntimeParams = nil, nil, map[string]string{"application_name": "cinch"}
	c.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	c.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { return Dial(ctx, up, nil) }
	return pgconn.ConnectConfig(ctx, c)
}

// errNoSecret means that neither a password nor a verifier of the user is known.
var errNoSecret = errors.New("no password or verifier is known for the user: add it to users_file, or give the gateway a user of its own that may run auth_query")

// secret returns the user's password, or what pg_authid stores of it.
func (x *secrets) secret(ctx context.Context, user string) (string, error) {
	if secret, ok := x.file[user]; ok {
		return secret, nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if secret, ok := x.known[user]; ok {
		return secret, nil
	}
	if x.conn == nil {
		return "", errNoSecret
	}
	r := x.conn.ExecParams(ctx, x.query, [][]byte{[]byte(user)}, []uint32{textType}, nil, nil).Read()
	if r.Err != nil {
		return "", fmt.Errorf("auth_query: %w", r.Err)
	}
	if len(r.Rows) != 1 || len(r.Rows[0]) < 2 || r.Rows[0][1] == nil {
		return "", errNoSecret
	}
	x.known[user] = string(r.Rows[0][1])
	return x.known[user], nil
}

// textType is the OID of type text.
const textType = 25

// primary reports whether the server takes writes. known is false if the gateway has no user of its own for the
// query.
func (x *secrets) primary(ctx context.Context) (primary, known bool, err error) {
	if x.conn == nil {
		return false, false, nil
	}
	standby, err := x.ask(ctx, "SELECT pg_catalog.pg_is_in_recovery()")
	return err == nil && standby == "f", true, err
}

// ask runs a query as the gateway's own user and returns the one value of its result.
func (x *secrets) ask(ctx context.Context, query string) (string, error) {
	r := x.conn.ExecParams(ctx, query, nil, nil, nil, nil).Read()
	if r.Err != nil || len(r.Rows) != 1 {
		return "", errors.Join(errors.New("query of the gateway's own user failed: "+query), r.Err)
	}
	return string(r.Rows[0][0]), nil
}

// readUsers reads PgBouncer's userlist.txt: lines of "user" "secret", in which a quote is written twice.
// Lines that begin with ; or # are comments.
func readUsers(file string) (map[string]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	users := map[string]string{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == ';' || line[0] == '#' {
			continue
		}
		user, rest, ok := unquote(line)
		secret, _, also := unquote(strings.TrimSpace(rest))
		if !ok || !also {
			return nil, fmt.Errorf("%s:%d: expected \"user\" \"password\"", file, n)
		}
		users[user] = secret
	}
	return users, lines.Err()
}

func unquote(s string) (text, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		return "", "", false
	}
	for i := 1; i < len(s); i++ {
		if s[i] != '"' {
			continue
		}
		if i+1 < len(s) && s[i+1] == '"' {
			i++
			continue
		}
		return strings.ReplaceAll(s[1:i], `""`, `"`), s[i+1:], true
	}
	return "", "", false
}
