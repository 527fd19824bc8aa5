package postgres

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/internal/shadow"
)

// looker asks a target what its other connections are doing.
type looker struct {
	target *shadow.Target
	pool   pool

	mu   sync.Mutex
	conn *pgconn.PgConn // nil before the first query and after an error

	processes processes
	spares    spares
	sequences sequences
}

// lookTime limits the wait for an answer.
const lookTime = 5 * time.Second

// question returns the state of a process. A process that has got its lock is shown as waiting until it runs
// again, so the query checks the locks themselves.
const question = `SELECT state = 'active', CASE WHEN wait_event_type IN ('Lock', 'IPC') THEN array_to_string(
	CASE WHEN wait_event = 'SafeSnapshot' THEN pg_safe_snapshot_blocking_pids(pid) ELSE pg_blocking_pids(pid) END, ' ') ELSE '' END,
	coalesce(wait_event_type = 'BufferPin', false), backend_xmin IS NOT NULL
	FROM pg_stat_get_activity(`

// look returns what the process pid is doing, and whether it waits for the process own.
func (l *looker) look(ctx context.Context, pid, own uint32) shadow.Progress {
	if pid == 0 {
		return shadow.Working // still connecting
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	row, err := l.ask(ctx, question+strconv.FormatUint(uint64(pid), 10)+")")
	if err != nil {
		l.drop()
		return trouble(err)
	}
	switch {
	case len(row) == 0:
		return shadow.Working // the process has released its locks and ends; the connection is not closed yet
	case row[0] == nil:
		return shadow.Stopping // the user may not see the process
	}
	blockers := strings.Fields(string(row[1]))
	switch {
	case row[0][0] != 't':
		return shadow.Working // it has answered
	case slices.Contains(blockers, strconv.FormatUint(uint64(own), 10)):
		return shadow.Yielding
	case l.processes.others(blockers):
		return shadow.Working // the holder of the lock is not the mirror's and will release it
	case len(blockers) > 0 || row[2][0] == 't':
		return shadow.Stopping
	case row[3][0] == 't':
		return shadow.Seeing
	}
	return shadow.Working
}

// trouble returns the progress for a failed query: a server that refuses it is up and working.
func trouble(err error) shadow.Progress {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return shadow.Working
	}
	return shadow.Silent
}

func (l *looker) ask(ctx context.Context, text string) ([][]byte, error) {
	if l.conn == nil {
		c, err := connect(ctx, l.target.Upstream, map[string]string{"application_name": ownName})
		if err != nil {
			return nil, err
		}
		l.conn = c
	}
	results, err := l.conn.Exec(ctx, text).ReadAll()
	if err != nil || len(results) == 0 || len(results[0].Rows) == 0 {
		return nil, err
	}
	return results[0].Rows[0], nil
}

func (l *looker) close() {
	l.spares.close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
}

func (l *looker) drop() {
	if l.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = l.conn.Close(ctx)
	l.conn = nil
}
