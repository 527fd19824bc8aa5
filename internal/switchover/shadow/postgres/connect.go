package postgres

import (
	"context"
	"errors"
	"maps"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/switchover/pg"
	"github.com/cinch-layer/cinch/internal/switchover/postgres"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
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

// notPassed reports whether connect leaves out a startup parameter: it is not a setting, or is an option of a protocol
// that the mirror does not speak.
func notPassed(name string) bool {
	switch name {
	case "user", "database", "replication":
		return true
	}
	return len(name) > 5 && name[:5] == "_pq_."
}

// startupParameters returns the parameters of a startup packet, with the database, which is the user's by default.
func startupParameters(packet []byte) (map[string]string, error) {
	parameters, err := pg.StartupParameters(packet)
	if err == nil && parameters["database"] == "" {
		parameters["database"] = parameters["user"]
	}
	return parameters, err
}

// connect logs in with the client's startup parameters.
func (c *conn) connect(op *shadow.Operation, deadline time.Time) error {
	var parameters map[string]string
	if op.Form == formStart {
		var err error
		if parameters, err = startupParameters(op.Request); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	made, err := connect(ctx, c.target.Upstream, parameters)
	if err != nil {
		return err
	}
	own, err := hijack(ctx, made)
	if err != nil {
		return err
	}
	if err := c.setNet(own.Conn, deadline); err != nil {
		return err
	}
	c.start, c.status = op, idle
	pid, err := c.probe.pool.process(ctx, own.PID, c.backend)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pid.Store(pid); !c.closed {
		c.probe.processes.add(pid, 1)
	}
	return nil
}

// hijack takes the network connection from pgconn. After a write that took longer than 15 ms pgconn reads in
// the background, and may still do so after the login. It would then take the next answer, for which the
// mirror would wait until the deadline.
func hijack(ctx context.Context, made *pgconn.PgConn) (*pgconn.HijackedConn, error) {
	if err := made.SyncConn(ctx); err != nil {
		return nil, errors.Join(err, made.Close(ctx))
	}
	return made.Hijack()
}

// setNet sets the network connection of c, unless c was closed meanwhile.
func (c *conn) setNet(made net.Conn, deadline time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.net = made
	if c.closed {
		return errors.Join(net.ErrClosed, made.Close())
	}
	return made.SetDeadline(deadline)
}

// backend returns the ID of the server process that serves the connection.
func (c *conn) backend() (pid uint32, err error) {
	if _, err := c.net.Write(pg.AppendQuery(nil, backendQuery)); err != nil {
		return 0, err
	}
	for {
		m, err := c.message()
		if err != nil {
			return 0, err
		}
		switch m.Type {
		case pg.DataRow:
			err = pg.Fields(m.Body, func(_ int, value []byte) { pid, err = processNumber(string(value)) })
		case pg.ErrorResponse:
			err = errors.New(pg.Text(m.Body))
		case pg.ReadyForQuery:
			return pid, nil
		}
		if err != nil {
			return 0, err
		}
	}
}
