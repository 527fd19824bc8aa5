package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

// servers holds production and the two targets of a mirror.
type servers struct {
	production, control, test *testenv.SQLServer
}

func (s servers) all() []*testenv.SQLServer {
	return []*testenv.SQLServer{s.production, s.control, s.test}
}

func TestMain(m *testing.M) { testenv.Main(m) }

// sharedServers returns three servers from Debian's package that tests share, one after the other. Each
// test uses its own databases or tables.
func sharedServers(t testing.TB) servers {
	t.Helper()
	return testenv.Shared(t, "servers", func(t testing.TB) servers {
		return startServers(t, "max_prepared_transactions=10", "max_connections="+strconv.Itoa(*crowd+100))
	})
}

func startServers(t testing.TB, settings ...string) (s servers) {
	t.Helper()
	for _, to := range []**testenv.SQLServer{&s.production, &s.control, &s.test} {
		*to = testenv.Postgres(t, settings...)
	}
	return s
}

// mirror is a running cinch shadow. Clients connect to addr.
type mirror struct {
	addr, port string
	pid        int
	stop       func() *report
}

// patience allows a mirror's targets to catch up. It only runs out if they hang.
const patience = 5 * time.Minute

// startMirror starts a mirror of all reads that ends only on a fault.
func startMirror(t *testing.T, production, control, test string, more ...string) *mirror {
	t.Helper()
	port := testenv.FreePort(t)
	m := &mirror{addr: fmt.Sprintf("127.0.0.1:%d", port), port: strconv.Itoa(port)}
	args := append([]string{
		"shadow", "--json", "--exit", "--self-test=false", "--postgres", m.addr + "=" + production, "--control", control, "--test", test,
		"--batch", "1s", "--bound", "1m", "--reads", "1", "--margin-p50", "1", "--margin-p99", "1", "--batches", "1000000",
	}, more...)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, testenv.Cinch(t), args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = patience
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m.pid = cmd.Process.Pid
	m.stop = sync.OnceValue(func() *report {
		cancel()
		var exit *exec.ExitError
		if err := cmd.Wait(); err != nil && !errors.As(err, &exit) && !errors.Is(err, context.Canceled) {
			t.Errorf("cinch shadow: %v", err)
		}
		r := &report{}
		if err := json.Unmarshal(out.Bytes(), r); err != nil {
			t.Errorf("%v: %s\n%s", err, out.String(), errs.String())
		}
		return r
	})
	t.Cleanup(func() {
		if r := m.stop(); t.Failed() { // it ends by itself if the targets differ
			t.Logf("%s %q, ended by %q: %+v", r.Outcome, r.Reasons, r.Ended, r.Differences)
		}
	})
	testenv.Eventually(t, "the mirror listens", func() bool {
		c, err := net.Dial("tcp", m.addr)
		if err != nil {
			return false
		}
		return c.Close() == nil
	})
	return m
}

// mirror starts a mirror for the three servers.
func (s servers) mirror(t *testing.T, more ...string) *mirror {
	t.Helper()
	return startMirror(t, s.production.URL(), s.control.URL(), s.test.URL(), more...)
}

// report holds the fields of --json that the tests use.
type report struct {
	Outcome, Ended string
	Reasons        []string
	Connections    int
	Operations     int
	Dropped        int
	Unmirrored     int
	Compared       struct {
		Equal, Timed, Diverged, Refused, Different, Unordered int

		Lost [2]int
	}
	Differences []struct {
		Name, Control, Test string
		Number              int
	}
	Why, Left, Refused map[string]int
}

// settle ends the mirror after the targets have executed everything. They must agree, with at least least
// equal answers.
func (m *mirror) settle(t *testing.T, least int) *report {
	t.Helper()
	r := m.stop()
	c := r.Compared
	t.Logf("%d connections, %d operations: %+v, left out %v, refused %v", r.Connections, r.Operations, c, r.Left, r.Refused)
	if c.Different > 0 || c.Lost != [2]int{} || r.Dropped > 0 || c.Equal < least {
		t.Errorf("%s %q, ended by %q: compared %+v, %d dropped %v, %+v", r.Outcome, r.Reasons, r.Ended, c, r.Dropped, r.Why, r.Differences)
	}
	return r
}
