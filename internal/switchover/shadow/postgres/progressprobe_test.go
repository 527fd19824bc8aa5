package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A parallel statement whose worker waits for a lock is itself waiting, though the server says that it waits
// for its worker.
func TestLookAtAParallelStatement(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t, "control")
	exec(t, s, `CREATE TABLE big AS SELECT i FROM generate_series(1, 100) AS i; ANALYZE big;
		CREATE FUNCTION locked(int) RETURNS int LANGUAGE sql PARALLEL SAFE AS 'SELECT $1 FROM pg_advisory_xact_lock($1)'`)
	up, err := endpoint.ParsePostgres(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	holder, err := connect(ctx, up, nil)
	if err != nil {
		t.Fatal(err)
	}
	waiter, err := connect(ctx, up, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(ctx, "SELECT pg_advisory_lock(1)").ReadAll(); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := waiter.Exec(ctx, `SET force_parallel_mode = on; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
			SET parallel_leader_participation = off; SELECT locked(1) FROM big LIMIT 1`).ReadAll()
		waited <- err
	}()
	testenv.Eventually(t, "a worker waits for the lock", func() bool {
		return contents(t, s, "SELECT count(*) FROM pg_stat_activity WHERE leader_pid IS NOT NULL AND wait_event = 'advisory' AND datname = current_database()") != "0|\n"
	})
	l := &progressProbe{target: &shadow.Target{Upstream: up}}
	defer l.close()
	if got := l.progress(ctx, waiter.PID(), 0); got != shadow.Working {
		t.Errorf("while no connection of the mirror holds the lock: %v", got)
	}
	l.processes.add(holder.PID(), 1)
	if got := l.progress(ctx, waiter.PID(), 0); got != shadow.Stopping {
		t.Errorf("to others: %v", got)
	}
	if got := l.progress(ctx, waiter.PID(), holder.PID()); got != shadow.Yielding {
		t.Errorf("to the holder of the lock: %v", got)
	}
	if err := holder.Close(context.WithoutCancel(ctx)); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
}

// A deferrable transaction waits for those that may make its snapshot unsafe, although the server has no lock
// for that.
func TestLookAtADeferrableTransaction(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t, "control")
	up, err := endpoint.ParsePostgres(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	writer, err := connect(ctx, up, nil)
	if err != nil {
		t.Fatal(err)
	}
	waiter, err := connect(ctx, up, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Exec(ctx, "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM pg_class").ReadAll(); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := waiter.Exec(ctx, "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE; SELECT 1; COMMIT").ReadAll()
		waited <- err
	}()
	testenv.Eventually(t, "it waits for a safe snapshot", func() bool {
		return contents(t, s, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SafeSnapshot' AND datname = current_database()") != "0|\n"
	})
	l := &progressProbe{target: &shadow.Target{Upstream: up}}
	defer l.close()
	l.processes.add(writer.PID(), 1)
	if got := l.progress(ctx, waiter.PID(), 0); got != shadow.Stopping {
		t.Errorf("to others: %v", got)
	}
	if got := l.progress(ctx, waiter.PID(), writer.PID()); got != shadow.Yielding {
		t.Errorf("to the one that it waits for: %v", got)
	}
	if _, err := writer.Exec(ctx, "COMMIT").ReadAll(); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
}

// A connection whose process the server no longer lists is about to close, however long a busy machine takes
// for that: operations keep waiting for it. A process that the user may not see counts as waiting.
func TestLookAtAProcessThatEnds(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t, "control")
	exec(t, s, "DROP ROLE IF EXISTS nosy; CREATE ROLE nosy LOGIN")
	up, err := endpoint.ParsePostgres(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	l, nosy := &progressProbe{target: &shadow.Target{Upstream: up}}, &progressProbe{target: &shadow.Target{Upstream: up}}
	nosy.target.Upstream.User = "nosy"
	defer l.close()
	defer nosy.close()
	c, err := connect(t.Context(), up, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := nosy.progress(t.Context(), c.PID(), 0); got != shadow.Stopping {
		t.Errorf("a process that the user may not see: %v", got)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the process has ended", func() bool {
		return contents(t, s, fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE pid = %d", c.PID())) == "0|\n"
	})
	if got := l.progress(t.Context(), c.PID(), 0); got != shadow.Working {
		t.Errorf("a process that has ended: %v", got)
	}
}

// A target that is stopped or gone does not count as busy; one that refuses the query is up.
func TestLookAtADeadTarget(t *testing.T) {
	t.Parallel()
	s := testenv.Postgres(t)
	up, err := endpoint.ParsePostgres(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	l := &progressProbe{target: &shadow.Target{Upstream: up}}
	defer l.close()
	look := func() shadow.Progress {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		return l.progress(ctx, 1, 0)
	}
	stranger := &progressProbe{target: &shadow.Target{Upstream: up}}
	stranger.target.Upstream.User = "nobody"
	if got := stranger.progress(t.Context(), 1, 0); got != shadow.Working {
		t.Errorf("a target that refuses the login: %v", got)
	}
	s.Freeze(t)
	if got := look(); got != shadow.Silent {
		t.Errorf("a target that is stopped: %v", got)
	}
	l.target.Upstream.Address = "127.0.0.1:1"
	if got := look(); got != shadow.Silent {
		t.Errorf("a target that is gone: %v", got)
	}
}
