package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/internal/shadow"
)

// A pool before a target, as PgBouncer, gives its clients keys of its own: their number is of no process. What waits for what is known by
// processes, so a connection asks for its own. That holds while a pool keeps a connection to the server for a client's whole session. One that
// lends it for a transaction can't be used: nobody could tell what a statement waits for, and it would wait for ever.

// errShared is a target behind such a pool.
var errShared = errors.New("it is behind a pool that lends connections for a transaction: give the target's own address, or a pool by sessions")

// pool is what stands before a target.
type pool struct {
	target *shadow.Target
	once   sync.Once
	err    error // errShared
}

// process is the number of a new connection's process at the server, by the number of its key, and by what asks for it.
func (p *pool) process(ctx context.Context, key uint32, ask func() (uint32, error)) (uint32, error) {
	pid, err := ask()
	if err != nil || pid == key {
		return pid, err
	}
	p.once.Do(func() { p.err = p.look(ctx, pid, ask) })
	return pid, p.err
}

// look finds out whether a connection's process is given to another one while it is idle, as what was used last is given first.
func (p *pool) look(ctx context.Context, pid uint32, ask func() (uint32, error)) error {
	other, err := connect(ctx, p.target.Upstream, map[string]string{"application_name": ownName})
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

const backendQuestion = "SELECT pg_catalog.pg_backend_pid()"

// backend asks which process serves a connection.
func backend(ctx context.Context, c *pgconn.PgConn) (uint32, error) {
	results, err := c.Exec(ctx, backendQuestion).ReadAll()
	if err != nil {
		return 0, err
	}
	return processNumber(string(results[0].Rows[0][0]))
}

func processNumber(text string) (uint32, error) {
	pid, err := strconv.ParseUint(text, 10, 32)
	return uint32(pid), err
}
