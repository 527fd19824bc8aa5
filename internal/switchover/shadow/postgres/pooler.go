package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// A pool in front of a target, such as PgBouncer, gives its clients cancellation keys whose process number is
// no server process. Waiting is looked up by process, so each connection asks for its own number. That number
// stays valid if the pool assigns server connections for a whole client session. A pool that assigns them per
// transaction can't be used: what a statement waits for would be unknown, and the mirror would wait forever.

// errShared is returned for a target behind a pool that assigns connections per transaction.
var errShared = errors.New("it is behind a pool in transaction mode: give the target's own address, or use pool_mode = session")

// pool checks for a pool in front of a target.
type pool struct {
	target *shadow.Target
	once   sync.Once
	err    error // errShared
}

// process returns the server process of a new connection. key is the number in its cancellation key; ask
// queries the server.
func (p *pool) process(ctx context.Context, key uint32, ask func() (uint32, error)) (uint32, error) {
	pid, err := ask()
	if err != nil || pid == key {
		return pid, err
	}
	p.once.Do(func() { p.err = p.detectSharing(ctx, pid, ask) })
	return pid, p.err
}

// detectSharing checks whether an idle connection's process is given to another connection. Pools reuse the
// last used process first.
func (p *pool) detectSharing(ctx context.Context, pid uint32, ask func() (uint32, error)) error {
	other, err := connect(ctx, p.target.Upstream, map[string]string{"application_name": applicationName})
	if err != nil {
		return nil //nolint:nilerr // a pool by sessions may have no more
	}
	defer other.Close(context.WithoutCancel(ctx))
	if _, err := other.Exec(ctx, "BEGIN").ReadAll(); err != nil {
		return fmt.Errorf("%w: %w", errShared, err)
	}
	if its, err := backend(ctx, other); err != nil || its == pid {
		return errors.Join(errShared, err)
	}
	if again, err := ask(); err != nil || again != pid {
		return errors.Join(errShared, err)
	}
	return nil
}

const backendQuery = "SELECT pg_catalog.pg_backend_pid()"

// backend returns the ID of the server process that serves the connection.
func backend(ctx context.Context, c *pgconn.PgConn) (uint32, error) {
	results, err := c.Exec(ctx, backendQuery).ReadAll()
	if err != nil {
		return 0, err
	}
	return processNumber(string(results[0].Rows[0][0]))
}

func processNumber(text string) (uint32, error) {
	pid, err := strconv.ParseUint(text, 10, 32)
	return uint32(pid), err
}
