package postgres

import (
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

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
