package postgres

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/switchover/postgres/control"
	"github.com/cinch-layer/cinch/test/testenv"
)

// The gateway tries the server that clients are to be moved to while it is a standby, with each kind of login
// that they have used. It reports failed logins and leaves no connection behind. No client waits or moves.
func TestReach(t *testing.T) {
	r, standby := newMovable(t)
	for user := range passwords {
		c := r.connect(t, user, "")
		defer func() { ask(t, c, "SELECT 'it goes on'") }()
	}
	r.connect(t, "trusted", "")
	const epoch = "SELECT extract(epoch FROM pg_postmaster_start_time())"
	to := control.ReachRequest{To: "postgres://" + standby.Addr, Started: standby.SQL(t, epoch), Logins: true}
	st, err := r.g.Reach(t.Context(), to)
	if err != nil || st.Phase != control.Open || !strings.HasSuffix(st.Upstream, r.node.Addr) {
		t.Errorf("%+v %v %+v", st, err, refused(err))
	}
	for _, one := range []struct {
		to   control.ReachRequest
		says string
	}{
		{control.ReachRequest{To: to.To, Started: r.node.SQL(t, epoch)}, "another server answers"},
		{control.ReachRequest{To: to.To + "?sslmode=require"}, "no TLS"},
		{control.ReachRequest{To: "postgres://127.0.0.1:1"}, "refused"},
		{control.ReachRequest{To: to.To + "?password=secret"}, errCredentials.Error()},
		{control.ReachRequest{To: to.To, Unmovable: "perhaps"}, "unmovable"},
	} {
		if _, err := r.g.Reach(t.Context(), one.to); err == nil || !strings.Contains(err.Error(), one.says) {
			t.Errorf("%+v: %v", one.to, err)
		}
	}
	refuse(t, standby, "scrammer", func() bool {
		_, err := r.g.Reach(t.Context(), to)
		return err != nil
	})
	_, err = r.g.Reach(t.Context(), to)
	if named := refused(err); len(named) != 1 || named[0].User != "scrammer" || len(named[0].Reasons) != 1 || !strings.Contains(named[0].Reasons[0], "28000") {
		t.Errorf("%v %+v", err, named)
	}
	to.Unmovable = control.End
	if st, err := r.g.Reach(t.Context(), to); err != nil || len(st.Refused) != 1 || st.Refused[0].User != "scrammer" {
		t.Errorf("sessions that can't log in are named, the others are not: %v %+v", err, st.Refused)
	}
	refuse(t, standby, "all", func() bool {
		_, err := r.g.Reach(t.Context(), control.ReachRequest{To: to.To})
		return err != nil && strings.Contains(err.Error(), "own user")
	})
	testenv.Eventually(t, "it leaves no connection behind", func() bool {
		return standby.SQL(t, "SELECT count(*) FROM pg_stat_activity WHERE client_addr IS NOT NULL") == "0"
	})
}

// A session that logged in before its user's password was changed could not log in again. Reach reports it, although
// a later session of the same user can log in.
func TestReachAfterNewPassword(t *testing.T) {
	r, standby := newMovable(t)
	before := r.connect(t, "scrammer", "application_name=before")
	r.node.SQL(t, "ALTER ROLE scrammer PASSWORD 'scram secret'")
	r.connect(t, "scrammer", "application_name=after")
	const verifier = "SELECT rolpassword FROM pg_authid WHERE rolname = 'scrammer'"
	testenv.Eventually(t, "the standby knows the new password", func() bool { return standby.SQL(t, verifier) == r.node.SQL(t, verifier) })
	_, err := r.g.Reach(t.Context(), control.ReachRequest{To: "postgres://" + standby.Addr, Logins: true})
	if named := refused(err); len(named) != 1 || named[0].Application != "before" || !strings.Contains(err.Error(), "1 of 2 ways") || !strings.Contains(named[0].Reasons[0], "password has been changed") {
		t.Errorf("%v %+v", err, named)
	}
	ask(t, before, "SELECT 'it goes on'")
}

// refuse has a server reject a user, and waits until it does.
func refuse(t *testing.T, n *testenv.PostgresNode, user string, done func() bool) {
	t.Helper()
	file := filepath.Join(n.Data, "pg_hba.conf")
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append([]byte("local all all trust\nhost all "+user+" all reject\n"), text...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	n.SQL(t, "SELECT pg_reload_conf()")
	testenv.Eventually(t, "the server refuses "+user, done)
}

// Without a user of its own, and without clients, the gateway checks whether PostgreSQL answers.
func TestReachWithoutUser(t *testing.T) {
	t.Parallel()
	node := testenv.NewPostgresNode(t, testenv.PostgresConfig{})
	up, err := endpoint.ParsePostgres("postgres://" + node.Addr)
	if err != nil {
		t.Fatal(err)
	}
	up.User = ""
	g := NewGateway(Config{Name: "test", Upstream: up})
	if _, err := g.Reach(t.Context(), control.ReachRequest{To: "postgres://" + node.Addr, Logins: true, Started: "0"}); err != nil {
		t.Error(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			_ = c.Close()
		}
	}()
	if _, err := g.Reach(t.Context(), control.ReachRequest{To: "postgres://" + l.Addr().String()}); err == nil || !strings.Contains(err.Error(), "as PostgreSQL does") {
		t.Errorf("another protocol: %v", err)
	}
}
