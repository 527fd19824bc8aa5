package cli

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// silent starts a server that accepts connections, passes them to came, and never answers.
func silent(t *testing.T) (url string, came <-chan net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	all := make(chan net.Conn, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all <- c
		}
	}()
	return "redis://" + l.Addr().String(), all
}

// The port is not bound while servers are checked: clients would connect and hang. A signal ends the check.
func TestThePortIsBoundLast(t *testing.T) {
	test, came := silent(t)
	listen := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	m := limited()
	m.SelfTest = true
	m.Servers = Servers{Listeners: Listeners{Redis: listen + "=" + testenv.Redis(t).URL()}, Control: testenv.Redis(t).URL(), Test: test}
	signals, ended := make(chan os.Signal, 4), make(chan error, 1)
	go func() { ended <- m.Run(t.Context(), signals, &said{}, &said{}) }()
	<-came
	if c, err := net.Dial("tcp", listen); err == nil {
		_ = c.Close()
		t.Error("a client may connect before the run can begin")
	}
	signals <- syscall.SIGTERM
	if err := <-ended; !errors.Is(err, errInterrupted) {
		t.Errorf("it ended with %v", err)
	}
}

// Turning the mirror off while servers are checked leaves a pass-through.
func TestTurnedOffBeforeItBegins(t *testing.T) {
	m := limited()
	m.SelfTest = true
	m.Servers = Servers{Listeners: Listeners{Redis: "127.0.0.1:0=" + testenv.Redis(t).URL()}, Control: testenv.Redis(t).URL(), Test: testenv.Redis(t).URL()}
	signals, errs, ended := make(chan os.Signal, 4), &said{}, make(chan error, 1)
	signals <- syscall.SIGUSR1
	go func() { ended <- m.Run(t.Context(), signals, &said{}, errs) }()
	testenv.Eventually(t, "clients are passed through", func() bool { return errs.has("passed through to production until") })
	signals <- syscall.SIGTERM
	if err := <-ended; !errors.Is(err, ErrNoVerdict) {
		t.Errorf("it ended with %v", err)
	}
}

// An unreachable production is reported at once, with a hint; the run begins all the same.
func TestProductionThatIsAway(t *testing.T) {
	gone := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	for _, c := range []struct {
		listeners     Listeners
		control, test string
	}{
		{Listeners{Redis: "127.0.0.1:0=redis://" + gone}, testenv.Redis(t).URL(), testenv.Redis(t).URL()},
		{Listeners{Postgres: "127.0.0.1:0=postgres://postgres@" + gone}, testenv.Postgres(t).URL(), testenv.Postgres(t).URL()},
	} {
		m := limited()
		m.Servers = Servers{Listeners: c.listeners, Control: c.control, Test: c.test}
		signals, errs, ended := make(chan os.Signal, 4), &said{}, make(chan error, 1)
		go func() { ended <- m.Run(t.Context(), signals, &said{}, errs) }()
		testenv.Eventually(t, "clients may connect", func() bool { return errs.has("clients may connect to") })
		for _, want := range []string{"warning: production (tcp://" + gone + ") can't be reached", "connection refused", "the address in --"} {
			if !errs.has(want) {
				t.Errorf("%q is not said", want)
			}
		}
		signals <- syscall.SIGTERM
		signals <- syscall.SIGTERM
		<-ended
	}
}

// A port in use is reported, with a hint.
func TestThePortIsInUse(t *testing.T) {
	m := limited()
	m.Servers = Servers{Listeners: Listeners{Redis: echo(t).Addr().String() + "=" + testenv.Redis(t).URL()}, Control: testenv.Redis(t).URL(), Test: testenv.Redis(t).URL()}
	if err := m.Run(t.Context(), nil, &bytes.Buffer{}, &bytes.Buffer{}); !errors.Is(err, syscall.EADDRINUSE) || terminal.Hint(err) == "" {
		t.Errorf("%v", err)
	}
}

// A state that can't be written is reported before any client is served, and by the check.
func TestStateThatCanNotBeKept(t *testing.T) {
	m := limited()
	m.Config.State = filepath.Join(t.TempDir(), "missing", "state.json")
	m.Servers = Servers{Listeners: Listeners{Redis: "127.0.0.1:0=" + testenv.Redis(t).URL()}, Control: testenv.Redis(t).URL(), Test: testenv.Redis(t).URL()}
	errs := &said{}
	if err := m.Run(t.Context(), nil, &bytes.Buffer{}, errs); !errors.Is(err, shadow.ErrState) || !strings.Contains(terminal.Hint(err), "--state") || errs.has("clients may connect") {
		t.Errorf("%v", err)
	}
}

// The error for an unreachable target contains its role and address. It does not say that rights are missing,
// or that it is another server.
func TestTargetsThatAreAwayAreNamed(t *testing.T) {
	t.Parallel()
	mongo := mongotest.Start(t, mongotest.Config{}).URI()
	redis, sql := testenv.Redis(t).URL(), testenv.Postgres(t).URL()
	nobody := strings.Replace(sql, "//postgres@", "//nobody@", 1)
	for _, c := range []struct {
		listeners     Listeners
		control, test string
		wants         []string
	}{
		{Listeners{Redis: "127.0.0.1:0=" + redis}, "redis://127.0.0.1:1", redis, []string{"control (tcp://127.0.0.1:1): ", "connection refused"}},
		{Listeners{Redis: "127.0.0.1:0=redis://127.0.0.1:2"}, redis, "redis://127.0.0.1:1", []string{"test (tcp://127.0.0.1:1): ", "connection refused"}},
		{Listeners{Mongo: "127.0.0.1:0=" + mongo}, "mongodb://127.0.0.1:1", mongo, []string{"control (tcp://127.0.0.1:1): ", "connection refused"}},
		{Listeners{Mongo: "127.0.0.1:0=" + mongo}, mongo, "mongodb://127.0.0.1:1", []string{"test (tcp://127.0.0.1:1): ", "connection refused"}},
		{Listeners{Postgres: "127.0.0.1:0=postgres://127.0.0.1:2"}, sql, "postgres://postgres@127.0.0.1:1/app", []string{"test (tcp://127.0.0.1:1): ", "connection refused"}},
		{Listeners{Postgres: "127.0.0.1:0=" + sql}, "postgres://postgres@127.0.0.1:1/app", sql, []string{"control (tcp://127.0.0.1:1): ", "database=app", " 127.0.0.1:1 ", "connection refused"}},
		{Listeners{Postgres: "127.0.0.1:0=" + sql}, "postgres://postgres@/app?host=/nowhere&port=7", sql, []string{"control (unix:/nowhere/.s.PGSQL.7): ", "/nowhere/.s.PGSQL.7 "}},
		{Listeners{Postgres: "127.0.0.1:0=" + sql}, nobody, sql, []string{"control (tcp://127.0.0.1:", `role "nobody" does not exist`}},
	} {
		o := Mirror{Servers: Servers{Listeners: c.listeners, Control: c.control, Test: c.test}, Memory: "1MiB"}
		o.Config = limited().Config
		err := o.Run(t.Context(), nil, &bytes.Buffer{}, &bytes.Buffer{})
		var hinted interface{ Hint() string }
		if !errors.Is(err, store.ErrUnreachable) || !errors.As(err, &hinted) || hinted.Hint() == "" {
			t.Fatalf("%s: %v", c.control, err)
		}
		for _, want := range c.wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in %v", c.control, want, err)
			}
		}
		for _, other := range []string{"localhost", "5432", "allowed", "topology"} {
			if strings.Contains(err.Error(), other) {
				t.Errorf("%s: %q is in %v", c.control, other, err)
			}
		}
	}
}
