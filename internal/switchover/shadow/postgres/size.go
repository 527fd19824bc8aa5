package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/usage"
)

// Queries of Size. The sum leaves out databases that the user may not connect to.
const (
	sizeQuery  = "SELECT sum(pg_database_size(oid)) FROM pg_database WHERE datallowconn AND has_database_privilege(oid, 'CONNECT')"
	filesQuery = `SELECT current_setting('data_directory'), floor(extract(epoch FROM pg_postmaster_start_time()))::bigint, current_setting('port')`
)

// Size returns the size of a target's databases, and looks for its files and processes on this machine. If
// its user may run CHECKPOINT, it does so first, so that the files hold what was in memory.
func (p *Protocol) Size(ctx context.Context, t *shadow.Target) (s usage.Size, err error) {
	c, err := connect(ctx, t.Upstream, map[string]string{"application_name": applicationName})
	if err != nil {
		return s, err
	}
	defer c.Close(context.WithoutCancel(ctx))
	if _, err := c.Exec(ctx, "CHECKPOINT").ReadAll(); err != nil {
		if !isForbidden(err) {
			return s, err
		}
		s.Why = append(s.Why, "data not yet on disk: its user may not run CHECKPOINT")
	}
	row, err := queryRow(ctx, c, sizeQuery)
	if err != nil {
		return s, err
	}
	s.By = "pg_database_size"
	if s.Bytes, err = strconv.ParseInt(row[0], 10, 64); err != nil {
		return s, err
	}
	if row, err = queryRow(ctx, c, filesQuery); err != nil {
		s.Why = append(s.Why, fmt.Sprintf("bytes on disk, CPU and I/O: find the data directory: %v", err))
		return s, nil
	}
	pid, err := localServer(row[0], row[1], row[2])
	if err != nil {
		s.Why = append(s.Why, fmt.Sprintf("bytes on disk, CPU and I/O: %v", err))
		return s, nil
	}
	s.Files = row[0]
	if parent, err := usage.Parent(int(c.PID())); err == nil && parent == pid {
		s.Process = pid
	} else {
		s.Why = append(s.Why, "CPU and I/O: its processes are not visible on this machine")
	}
	return s, nil
}

// isForbidden reports whether err is the server's refusal for lack of a privilege.
func isForbidden(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "42501"
}

// queryRow runs a query and returns its only row.
func queryRow(ctx context.Context, c *pgconn.PgConn, question string) ([]string, error) {
	results, err := c.Exec(ctx, question).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(results) != 1 || len(results[0].Rows) != 1 {
		return nil, fmt.Errorf("%d answers to %s", len(results), question)
	}
	var row []string
	for _, value := range results[0].Rows[0] {
		row = append(row, string(value))
	}
	return row, nil
}

// Lines of postmaster.pid.
const (
	pidLine   = 0
	startLine = 2
	portLine  = 3
	pidLines  = 4
)

// localServer returns the ID of a server's main process, if its data directory is on this machine. Two machines may
// have the same path, so it checks the file that a running server keeps there.
func localServer(directory, started, port string) (pid int, err error) {
	f, err := os.Open(filepath.Join(directory, "postmaster.pid"))
	if err != nil {
		return 0, fmt.Errorf("its files are not visible on this machine: %w", err)
	}
	defer f.Close()
	var lines []string
	for s := bufio.NewScanner(f); s.Scan(); {
		lines = append(lines, strings.TrimSpace(s.Text()))
	}
	if len(lines) < pidLines || lines[portLine] != port || !sameTime(lines[startLine], started) {
		return 0, fmt.Errorf("%s on this machine belongs to another server", directory)
	}
	return strconv.Atoi(lines[pidLine])
}

// sameTime reports whether two times in seconds differ by at most one: the server records its start twice.
func sameTime(a, b string) bool {
	x, err := strconv.ParseInt(a, 10, 64)
	if err != nil {
		return false
	}
	y, err := strconv.ParseInt(b, 10, 64)
	return err == nil && x-y <= 1 && y-x <= 1
}
