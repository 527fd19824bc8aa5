package postgres

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/test/testenv"
)

// onSmallDisk starts a server with its data on a filesystem of a few megabytes.
func onSmallDisk(t *testing.T) *testenv.SQLServer {
	t.Helper()
	// Not t.TempDir: the server's user may not enter it.
	dir, err := os.MkdirTemp("", "cinch-small-disk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=90m,mode=0777"); err != nil {
		t.Skipf("a filesystem of its own can't be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	before := os.Getenv("TMPDIR")
	if err := os.Setenv("TMPDIR", dir); err != nil {
		t.Fatal(err)
	}
	defer os.Setenv("TMPDIR", before)
	return testenv.Postgres(t, "max_wal_size=32MB", "min_wal_size=32MB")
}

// The disk of a target fills up: clients notice nothing, production has all that they wrote, and the run is
// void with a reason.
func TestTargetWithFullDisk(t *testing.T) {
	b := &bench{production: ownDatabase(t, "production"), control: ownDatabase(t, "control")}
	b.test = newDatabase(t, onSmallDisk(t), b.production.Database())
	b.exec(t, "CREATE TABLE t (id int PRIMARY KEY, v text); ALTER TABLE t ALTER v SET STORAGE EXTERNAL")
	b.start(t, nil)
	c, ctx := b.client(t), t.Context()
	value := strings.Repeat("v", 500_000)
	const rows = 150
	for i := range rows {
		if _, err := c.Exec(ctx, "INSERT INTO t VALUES ($1, $2)", i, value); err != nil {
			t.Fatalf("row %d: %v", i, err)
		}
	}
	r := b.finish(t)
	if r.Outcome != "VOID" || len(r.Reasons) == 0 {
		t.Errorf("%s %q", r.Outcome, r.Reasons)
	}
	if got := contents(t, b.production, "SELECT count(*) FROM t"); got != "150|\n" {
		t.Errorf("production has %s", got)
	}
	if _, err := c.Exec(ctx, "SELECT 1"); err != nil {
		t.Errorf("behind it: %v", err)
	}
}

// Production crashes in the middle of transactions, and is started again at its address. Clients are
// disconnected as they would be without the mirror, connect again and continue. So does the mirror, and no
// server has uncommitted data.
func TestProductionComesBack(t *testing.T) {
	t.Parallel()
	crashes := testenv.Postgres(t)
	b := &bench{production: newDatabase(t, crashes, "crashes"), control: newDatabase(t, shared(t, "control"), "crashes"), test: newDatabase(t, shared(t, "test"), "crashes")}
	b.exec(t, "CREATE TABLE t (id int PRIMARY KEY, v text)")
	b.start(t, func(c *shadow.Config) { c.DataCheck, c.DataProduction = shadow.DataFull, true })
	ctx := t.Context()
	var cut []*pgx.Conn
	for i := range 8 {
		c := b.client(t)
		if _, err := c.Exec(ctx, "INSERT INTO t VALUES ($1, 'kept')", i); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Exec(ctx, "BEGIN"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Exec(ctx, "INSERT INTO t VALUES ($1, 'not committed')", 100+i); err != nil {
			t.Fatal(err)
		}
		cut = append(cut, c)
	}
	crashes.Restart(t)
	var all sync.WaitGroup
	for i, c := range cut {
		all.Go(func() {
			if _, err := c.Exec(ctx, "COMMIT"); err == nil {
				t.Error("a connection outlived its server")
			}
			again, err := pgx.Connect(ctx, b.url)
			if err != nil {
				t.Error(err)
				return
			}
			defer again.Close(ctx)
			if _, err := again.Exec(ctx, "INSERT INTO t VALUES ($1, 'after')", 200+i); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	r := b.settle(t)
	if r.Outcome == "VOID" || notEqual(r.Data) != "" {
		t.Errorf("%s %q %s", r.Outcome, r.Reasons, notEqual(r.Data))
	}
	b.same(t, "t")
	if got := contents(t, b.test, "SELECT count(*), count(*) FILTER (WHERE v = 'not committed') FROM t"); got != "16|0|\n" {
		t.Errorf("the target has %s", got)
	}
}

// Targets that are stopped, and then one that is gone: clients notice nothing, memory stays within its limit,
// and the run is void.
func TestFrozenAndKilledTargets(t *testing.T) {
	t.Parallel()
	freezes, dies := testenv.Postgres(t), testenv.Postgres(t)
	b := &bench{production: ownDatabase(t, "production")}
	b.control, b.test = newDatabase(t, freezes, b.production.Database()), newDatabase(t, dies, b.production.Database())
	b.exec(t, "CREATE TABLE t (id int PRIMARY KEY, v text)")
	b.start(t, func(c *shadow.Config) { c.Memory, c.Patience = 2*shadow.MiB, 3*time.Second })
	c, ctx := b.client(t), t.Context()
	if _, err := c.Exec(ctx, "INSERT INTO t VALUES (0, 'x')"); err != nil {
		t.Fatal(err)
	}
	freezes.Freeze(t)
	value := strings.Repeat("v", 10_000)
	for i := range 500 {
		if _, err := c.Exec(ctx, "INSERT INTO t VALUES ($1, $2)", i+1, value); err != nil {
			t.Fatal(err)
		}
	}
	if held := b.run.Held(); held > 2*shadow.MiB {
		t.Errorf("%d bytes are held", held)
	}
	dies.Kill()
	select {
	case <-b.run.Over():
	case <-time.After(time.Minute):
		t.Fatal("the mirror goes on with a target that is gone")
	}
	if r := b.run.Report(); r.Outcome != "VOID" || len(r.Reasons) == 0 {
		t.Errorf("%s %q", r.Outcome, r.Reasons)
	}
	if _, err := c.Exec(ctx, "SELECT 1"); err != nil {
		t.Errorf("with the mirror off: %v", err)
	}
}

// A wrong row at a target is found and not shown. A statement that is cancelled in production is left out,
// and its transaction continues as there.
func TestWrongRowAndCancelledStatement(t *testing.T) {
	b := newBench(t, "CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'right')", nil)
	c, ctx := b.client(t), t.Context()
	for _, text := range []string{"BEGIN", "INSERT INTO t VALUES (2, 'kept')", "SAVEPOINT s"} {
		if _, err := c.Exec(ctx, text); err != nil {
			t.Fatal(err)
		}
	}
	stopped := make(chan error, 1)
	go func() {
		_, err := c.PgConn().Exec(context.Background(), "UPDATE t SET v = 'never' FROM pg_sleep(600)").ReadAll()
		stopped <- err
	}()
	testenv.Eventually(t, "the statement runs", func() bool {
		return contents(t, b.production, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()") == "1|\n"
	})
	if err := c.PgConn().CancelRequest(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-stopped; err == nil || !strings.Contains(err.Error(), "57014") {
		t.Fatalf("cancelled: %v", err)
	}
	for _, text := range []string{"ROLLBACK TO s", "COMMIT"} {
		if _, err := c.Exec(ctx, text); err != nil {
			t.Fatal(err)
		}
	}
	for _, target := range []*testenv.SQLServer{b.control, b.test} {
		testenv.Eventually(t, "the commit has come", func() bool { return contents(t, target, "SELECT count(*) FROM t") == "2|\n" })
	}
	b.same(t, "t")
	exec(t, b.test, "UPDATE t SET v = 'secret' WHERE id = 1")
	if _, err := c.Exec(ctx, "SELECT * FROM t WHERE id = 1"); err != nil {
		t.Fatal(err)
	}
	r := b.finish(t)
	if r.Outcome != "VOID" || r.Compared.Different != 1 || len(r.Left) != 1 || strings.Contains(fmt.Sprint(r.Differences), "secret") {
		t.Errorf("%s: %+v, left out %v, %v", r.Outcome, r.Compared, r.Left, r.Differences)
	}
}

// Only production executes statements that write files or pass rows to a program: a target may run on
// production's machine, and would write the same files.
func TestFilesOfTheMachine(t *testing.T) {
	b := newBench(t, "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)", nil)
	dir := t.TempDir()
	for _, at := range []string{dir, filepath.Dir(dir)} { // the servers run as another user
		if err := os.Chmod(at, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	notes := filepath.Join(dir, "notes")
	away := "COPY t TO PROGRAM 'cat >> " + notes + "'"
	c, ctx := b.client(t), t.Context()
	for _, text := range []string{away, "BEGIN", "INSERT INTO t VALUES (2)", away, "INSERT INTO t VALUES (3)", "COMMIT"} {
		if _, err := c.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Prepare(ctx, "away", away); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(ctx, "away"); err != nil {
		t.Fatal(err)
	}
	for _, target := range []*testenv.SQLServer{b.control, b.test} {
		testenv.Eventually(t, "the commit has come", func() bool { return contents(t, target, "SELECT count(*) FROM t") == "3|\n" })
	}
	r := b.finish(t)
	if text, err := os.ReadFile(notes); err != nil || string(text) != "1\n1\n2\n1\n2\n3\n" {
		t.Errorf("%q, %v", text, err)
	}
	if r.Compared.Different != 0 || len(r.Left) != 1 || !strings.Contains(fmt.Sprint(r.Left), "programs there:3") {
		t.Errorf("%s: %+v, left out %v, %v", r.Outcome, r.Compared, r.Left, r.Differences)
	}
}

func TestSelfTestFindsWhatItPlants(t *testing.T) {
	b := newBench(t, "CREATE TABLE t (id int)", nil)
	if err := b.run.SelfTest(t.Context()); err != nil && !strings.Contains(err.Error(), "too noisy") {
		t.Error(err)
	}
	for _, s := range b.servers() {
		if left := contents(t, s, "SELECT count(*) FROM pg_namespace WHERE nspname = 'cinch_shadow'"); left != "0|\n" {
			t.Errorf("left behind: %s", left)
		}
	}
}

// A self-test that is interrupted while one of its writes is under way leaves nothing behind, either.
func TestEndedSelfTestLeavesNothing(t *testing.T) {
	b := newBench(t, "CREATE TABLE t (id int)", nil)
	ctx, cancel := context.WithCancel(t.Context())
	c, err := pgx.Connect(t.Context(), b.control.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	exec := func(query string) {
		t.Helper()
		if _, err := c.Exec(t.Context(), query); err != nil {
			t.Error(err)
		}
	}
	exec("BEGIN; LOCK TABLE pg_namespace IN SHARE MODE") // CREATE SCHEMA waits for it
	ended := make(chan error, 1)
	go func() { ended <- b.run.SelfTest(ctx) }()
	testenv.Eventually(t, "its first write waits", func() bool {
		var waiting bool
		return c.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'pg_namespace'::regclass AND NOT granted)").Scan(&waiting) == nil && waiting
	})
	cancel()
	exec("COMMIT")
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "before it finished") {
		t.Errorf("%v", err)
	}
	for _, s := range []*testenv.SQLServer{b.control, b.test} {
		if left := contents(t, s, "SELECT count(*) FROM pg_namespace WHERE nspname = 'cinch_shadow'"); left != "0|\n" {
			t.Errorf("left behind: %s", left)
		}
	}
}
