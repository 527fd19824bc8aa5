package shadow

import (
	"context"
	"fmt"
	"os/exec"
	"sync"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// All modes of pgbench, and psql, work through the mirror, and the targets end with production's data.
func TestPostgres(t *testing.T) {
	pgbench := testenv.Program(t, "pgbench")
	production, control, test := testenv.Postgres(t), testenv.Postgres(t), testenv.Postgres(t)
	for _, s := range []*testenv.SQLServer{production, control, test} {
		testenv.Run(t, "", pgbench, "-i", "-I", "dtgp", "-q", "-s", "1", "-h", "127.0.0.1", "-p", s.Port, "-U", "postgres", "postgres")
		testenv.Run(t, "", "psql", "-q", "-h", "127.0.0.1", "-p", s.Port, "-U", "postgres", "-c", "ALTER DATABASE postgres SET deadlock_timeout = '50ms'")
	}
	port := testenv.FreePort(t)
	ctx, cancel := context.WithCancel(t.Context())
	var mirrored sync.WaitGroup
	var r *report
	mirrored.Go(func() {
		r, _ = mirror(ctx, t, "--postgres", fmt.Sprintf("127.0.0.1:%d=%s", port, production.URL()), "--control", control.URL(), "--test", test.URL(),
			"--batch", "500ms", "--bound", "1m", "--reads", "0.5", "--margin-p50", "1", "--margin-p99", "1", "--batches", "100000")
	})
	through := func(name string, args ...string) {
		t.Helper()
		args = append(args, "-h", "127.0.0.1", "-p", fmt.Sprint(port), "-U", "postgres", "postgres")
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			t.Errorf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	testenv.Eventually(t, "the mirror listens", func() bool {
		return exec.Command("psql", "-h", "127.0.0.1", "-p", fmt.Sprint(port), "-U", "postgres", "-c", "SELECT 1").Run() == nil
	})
	for _, mode := range []string{"simple", "extended", "prepared"} {
		through(pgbench, "-n", "-M", mode, "-c", "4", "-t", "10")
		through(pgbench, "-n", "-S", "-M", mode, "-c", "4", "-t", "20")
	}
	through("psql", "-c", "CREATE TABLE copied (a int, b text)", "-c", "COPY (SELECT i, 'row ' || i FROM generate_series(1, 1000) i) TO STDOUT", "-c", "INSERT INTO copied VALUES (1, 'x')")
	cancel()
	mirrored.Wait()
	t.Logf("%+v", r)
	if r.Compared.Different > 0 || r.Compared.Equal == 0 {
		t.Errorf("%s %q: %+v", r.Outcome, r.Reasons, r.Compared)
	}
	for _, query := range []string{
		"SELECT sum(abalance), count(*) FROM pgbench_accounts", "SELECT * FROM pgbench_tellers ORDER BY tid", "SELECT * FROM pgbench_branches",
		"SELECT tid, bid, aid, delta FROM pgbench_history ORDER BY 1, 2, 3, 4", "SELECT * FROM copied",
	} {
		want := ask(t, production, query)
		for _, s := range []*testenv.SQLServer{control, test} {
			if got := ask(t, s, query); got != want {
				t.Errorf("%s: %d bytes of another answer than production's", query, len(got))
			}
		}
	}
}

func ask(t *testing.T, s *testenv.SQLServer, query string) string {
	t.Helper()
	out, err := exec.Command("psql", "-At", "-h", "127.0.0.1", "-p", s.Port, "-U", "postgres", "-c", query, "postgres").CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", query, err, out)
	}
	return string(out)
}
