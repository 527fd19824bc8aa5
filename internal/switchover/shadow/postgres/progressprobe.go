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

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// progressProbe asks a target what its other connections are doing.
type progressProbe struct {
	target *shadow.Target
	pool   pool

	mu   sync.Mutex
	conn *pgconn.PgConn // nil before the first query and after an error

	processes processes
	blockers  blockerPool
	sequences sequences
}

// probeTimeout limits the wait for an answer.
const probeTimeout = 5 * time.Second

// progressQuery returns the state of a process. A process that has got its lock is shown as waiting until it
// runs again, so the query checks the locks themselves.
const progressQuery = `SELECT state = 'active', CASE WHEN wait_event_type IN ('Lock', 'IPC') THEN array_to_string(
	CASE WHEN wait_event = 'SafeSnapshot' THEN pg_safe_snapshot_blocking_pids(pid) ELSE pg_blocking_pids(pid) END, ' ') ELSE '' END,
	coalesce(wait_event_type = 'BufferPin', false), backend_xmin IS NOT NULL
	FROM pg_stat_get_activity(`

// progress returns what the process pid is doing, and whether it waits for the process own.
func (l *progressProbe) progress(ctx context.Context, pid, own uint32) shadow.Progress {
	if pid == 0 {
		return shadow.Working // still connecting
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	row, err := l.query(ctx, progressQuery+strconv.FormatUint(uint64(pid), 10)+")")
	if err != nil {
		l.disconnect()
		return progressOnError(err)
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
	case l.processes.anyForeign(blockers):
		return shadow.Working // the holder of the lock is not the mirror's and will release it
	case len(blockers) > 0 || row[2][0] == 't':
		return shadow.Stopping
	case row[3][0] == 't':
		return shadow.Seeing
	}
	return shadow.Working
}

// progressOnError returns the progress for a failed query: a server that refuses it is up and working.
func progressOnError(err error) shadow.Progress {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return shadow.Working
	}
	return shadow.Silent
}

func (l *progressProbe) query(ctx context.Context, text string) ([][]byte, error) {
	if l.conn == nil {
		c, err := connect(ctx, l.target.Upstream, map[string]string{"application_name": applicationName})
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

func (l *progressProbe) close() {
	l.blockers.close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.disconnect()
}

func (l *progressProbe) disconnect() {
	if l.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = l.conn.Close(ctx)
	l.conn = nil
}

// processes counts the mirror's connections per server process of a target. A lock of any other process, such
// as one whose connection has ended or an autovacuum, is released without help of the mirror.
type processes struct {
	mu          sync.Mutex
	connections map[string]int // connections by process: a pool may use a process for several, one after the other
}

func (p *processes) add(pid uint32, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.connections == nil {
		p.connections = map[string]int{}
	}
	key := strconv.FormatUint(uint64(pid), 10)
	if p.connections[key] += n; p.connections[key] <= 0 {
		delete(p.connections, key)
	}
}

// preparedTransaction stands for prepared transactions, which the mirror ends as clients do.
const preparedTransaction = "0"

// anyForeign reports whether one of the processes is not the mirror's.
func (p *processes) anyForeign(pids []string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(pids, func(pid string) bool { return pid != preparedTransaction && p.connections[pid] == 0 })
}
