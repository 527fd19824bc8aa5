package postgres

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/internal/shadow"
)

// looker asks a target what its other connections do.
type looker struct {
	target *shadow.Target

	mu   sync.Mutex
	conn *pgconn.PgConn // nil before the first question, and after trouble
}

// lookTime is for an answer.
const lookTime = 5 * time.Second

// question about a process. One that has been given its lock still says that it waits until it runs again, so the locks
// themselves are asked.
const question = `SELECT state = 'active', CASE WHEN wait_event_type = 'Lock' THEN array_to_string(pg_blocking_pids(pid), ' ') ELSE '' END,
	coalesce(wait_event_type = 'BufferPin' OR wait_event = 'SafeSnapshot', false), backend_xmin IS NOT NULL
	FROM pg_stat_get_activity(`

// look says what a connection does, by the number of its process, and whether it waits for the own one.
func (l *looker) look(ctx context.Context, pid, own uint32) shadow.Progress {
	if pid == 0 {
		return shadow.Working // it connects
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	row, err := l.ask(ctx, question+strconv.FormatUint(uint64(pid), 10)+")")
	if err != nil {
		l.drop()
		return shadow.Working
	}
	if len(row) == 0 || row[0] == nil {
		return shadow.Stopping // a pool stands before the target, or the user may not see it
	}
	blockers := strings.Fields(string(row[1]))
	switch {
	case row[0][0] != 't':
		return shadow.Working // it has answered
	case slices.Contains(blockers, strconv.FormatUint(uint64(own), 10)):
		return shadow.Yielding
	case len(blockers) > 0 || row[2][0] == 't':
		return shadow.Stopping
	case row[3][0] == 't':
		return shadow.Seeing
	}
	return shadow.Working
}

func (l *looker) ask(ctx context.Context, text string) ([][]byte, error) {
	if l.conn == nil {
		c, err := connect(ctx, l.target.Upstream, map[string]string{"application_name": "cinch shadow"})
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
