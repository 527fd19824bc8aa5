package postgres

import (
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/usage"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A run reports the storage of both targets: by their own queries, and on disk here or by a command; and the
// resources that they used.
func TestUsage(t *testing.T) {
	t.Parallel()
	control := testenv.Postgres(t) // its own, since other tests' databases and WAL segments would be gone at the end
	b := &bench{production: ownDatabase(t, "production"), control: newDatabase(t, control, "testusage"), test: ownDatabase(t, "test")}
	b.exec(t, "CREATE TABLE t AS SELECT i, repeat('x', 500) AS v FROM generate_series(1, 8000) i")
	b.start(t, func(c *shadow.Config) {
		c.StorageCommands = map[string]string{"test": "echo 4096 bytes"} // control's files are examined
	})
	c, ctx := b.client(t), t.Context()
	for range 5 {
		if _, err := c.Exec(ctx, "INSERT INTO t SELECT i, repeat('y', 500) FROM generate_series(1, 8000) i"); err != nil {
			t.Fatal(err)
		}
	}
	r := b.finish(t)
	if r.Begin == nil || r.End == nil {
		t.Fatalf("begin %v, end %v", r.Begin, r.End)
	}
	for name, u := range map[string]usage.Usage{"control": r.End.Control, "test": r.End.Test} {
		if u.ServerBy != "pg_database_size" || u.Server < 25<<20 || len(u.Missing) > 0 || u.CPU <= 0 {
			t.Errorf("%s: %+v", name, u)
		}
	}
	if u := r.End.Control; u.Disk < u.Server || u.Disk <= r.Begin.Control.Disk+15<<20 {
		t.Errorf("control: %+v, at the beginning %+v", u, r.Begin.Control)
	}
	if u := r.End.Test; u.Disk != 4096 || u.DiskBy != "command" {
		t.Errorf("test: %+v", u)
	}
	var text strings.Builder
	if err := r.Text(&text); err != nil || !strings.Contains(text.String(), "pg_database_size, at the end") || !strings.Contains(text.String(), "CPU of the server") {
		t.Errorf("%v: %s", err, &text)
	}
}

// Files of another server do not count as the target's.
func TestFilesOfAnotherServer(t *testing.T) {
	t.Parallel()
	one, other := shared(t, "control"), shared(t, "test")
	row := func(s *testenv.SQLServer) []string {
		return strings.Split(strings.TrimSpace(contents(t, s, filesQuery)), "|")
	}
	of, from := row(one), row(other)
	if pid, err := localServer(of[0], of[1], of[2]); err != nil || pid == 0 {
		t.Errorf("%v: %d, %v", of, pid, err)
	}
	if _, err := localServer(of[0], of[1], from[2]); err == nil {
		t.Error("it is taken for one of another port")
	}
	if _, err := localServer(of[0], "1000000", of[2]); err == nil {
		t.Error("it is taken for one of another time")
	}
}
