package postgres

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/internal/switchover/postgres/control"
	"github.com/cinch-layer/cinch/test/testenv"
)

// Sessions that can't be moved are named, and by policy waited for or ended.
func TestUnmovable(t *testing.T) {
	r := newRig(t, withStateFile(t))
	reasons := map[string]string{
		"table": "temporary tables: x", "lock": "2 advisory locks", "listen": "LISTEN: news", "cursor": "cursors WITH HOLD: c", "function": "temporary functions: f",
		"name": "set_config", "several": "prepared together",
	}
	texts := map[string]string{
		"table": "CREATE TEMP TABLE x (a int)", "lock": "SELECT pg_advisory_lock(1), pg_advisory_lock_shared(2)", "listen": "LISTEN news",
		"cursor": "BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT 1; COMMIT", "function": "CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
		"name": "SELECT set_config('a.' || 'b', '1', false)", "several": "SELECT 1; PREPARE p AS SELECT 1",
	}
	clients := map[string]*pgx.Conn{}
	for name, text := range texts {
		clients[name] = r.connect(t, "scrammer", "application_name="+name)
		if _, err := clients[name].Exec(t.Context(), text, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	free := r.connect(t, "scrammer", "application_name=free")
	_, err := r.g.Hold(t.Context(), control.HoldRequest{})
	named := refused(err)
	for _, s := range named {
		if want := reasons[s.Application]; want == "" || !strings.Contains(strings.Join(s.Reasons, "; "), want) {
			t.Errorf("%s: %q", s.Application, s.Reasons)
		}
	}
	if len(named) != len(reasons) {
		t.Errorf("%d sessions are named: %v", len(named), err)
	}
	for _, c := range clients {
		ask(t, c, "SELECT 'goes on'")
	}
	for name, c := range clients {
		if name == "name" {
			_ = c.Close(t.Context())
		} else if _, err := c.Exec(t.Context(), "DISCARD ALL", pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	testenv.Eventually(t, "they can be moved", func() bool {
		_, err = r.g.Hold(t.Context(), control.HoldRequest{})
		return err == nil
	})
	if _, err := r.g.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := clients["lock"].Exec(t.Context(), "CREATE TEMP TABLE y ()"); err != nil {
		t.Fatal(err)
	}
	st, err := r.g.Hold(t.Context(), control.HoldRequest{Unmovable: control.End})
	if err != nil || len(st.Sessions) != len(clients)-1 {
		t.Errorf("%d sessions left, %v", len(st.Sessions), err)
	}
	if _, err := r.g.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := clients["lock"].Exec(t.Context(), "SELECT 1"); err == nil || !strings.Contains(err.Error(), "57P01") {
		t.Errorf("the client got %v", err)
	}
	ask(t, free, "SELECT 'goes on'")
}

// A session that can't be moved may become movable, while all others continue.
func TestPatience(t *testing.T) {
	r := newRig(t, withStateFile(t))
	c, free := r.connect(t, "scrammer", ""), r.connect(t, "scrammer", "")
	if _, err := c.Exec(t.Context(), "SELECT pg_advisory_lock(1)"); err != nil {
		t.Fatal(err)
	}
	held := make(chan error, 1)
	go func() {
		_, err := r.g.Hold(context.Background(), control.HoldRequest{Patience: 60})
		held <- err
	}()
	for range 100 {
		ask(t, free, "SELECT 'goes on'")
	}
	if _, err := c.Exec(t.Context(), "SELECT pg_advisory_unlock(1)"); err != nil {
		t.Fatal(err)
	}
	if err := <-held; err != nil {
		t.Error(err)
	}
}

// A transaction that does not end in time fails the hold, which names it. Everything continues as before.
func TestStuck(t *testing.T) {
	r := newRig(t, withStateFile(t))
	c, other := r.connect(t, "scrammer", "application_name=stuck"), r.connect(t, "trusted", "")
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.g.Hold(t.Context(), control.HoldRequest{Within: 0.2})
	if named := refused(err); len(named) != 1 || named[0].Application != "stuck" || named[0].State != inTransaction {
		t.Errorf("%v: %+v", err, named)
	}
	if st := r.g.State(); st.Phase != control.Open {
		t.Errorf("it is %s", st.Phase)
	}
	ask(t, other, "SELECT 'goes on'")
	if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Error(err)
	}
	if _, err = r.g.Hold(t.Context(), control.HoldRequest{Within: 0.2, Stuck: control.End}); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1"); err == nil || !strings.Contains(err.Error(), "57P01") {
		t.Errorf("the client got %v", err)
	}
	if _, err := r.g.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask(t, other, "SELECT 'goes on'")
}

// While clients are held an open transaction continues, new transactions and new clients wait, and a hold
// that is not renewed ends.
func TestHeldClientsWait(t *testing.T) {
	r := newRig(t, withStateFile(t))
	inside, outside := r.connect(t, "scrammer", ""), r.connect(t, "trusted", "")
	tx, err := inside.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	held := make(chan error, 1)
	go func() {
		_, err := r.g.Hold(context.Background(), control.HoldRequest{Within: 60, Lease: 3600, By: "one"})
		held <- err
	}()
	testenv.Eventually(t, "it begins", func() bool { return r.g.State().Phase == control.Holding })
	if _, err := r.g.Hold(t.Context(), control.HoldRequest{By: "another"}); err == nil {
		t.Error("a second one holds too")
	}
	answered := make(chan error, 2)
	go func() { answered <- outside.QueryRow(context.Background(), "SELECT 1").Scan(new(int)) }()
	go func() {
		c, err := pgx.Connect(context.Background(), r.url("md5er", ""))
		if err == nil {
			_ = c.Close(context.Background())
		}
		answered <- err
	}()
	testenv.Eventually(t, "both wait", func() bool { return r.g.State().Waiting == 2 })
	for range 20 {
		if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-held; err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-answered:
		t.Fatalf("answered while it is held: %v", err)
	default:
	}
	if _, err := r.g.Hold(t.Context(), control.HoldRequest{Renew: true, Lease: 0.01, By: "one"}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the lease ends the hold
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
	if st := r.g.State(); st.Phase != control.Open || st.Longest == 0 {
		t.Errorf("%+v", st)
	}
}

// Nothing moves when the other server is unreachable, and all sessions return to the old one, which has been
// down meanwhile.
func TestFailedMove(t *testing.T) {
	r, standby := newMovable(t)
	c := r.connect(t, "scrammer", "")
	if _, err := c.Exec(t.Context(), "SET app.x = 'kept'"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.g.Move(t.Context(), control.MoveRequest{To: standby.Addr}); err == nil {
		t.Error("moved without a hold")
	}
	if _, err := r.g.Hold(t.Context(), control.HoldRequest{}); err != nil {
		t.Fatal(err)
	}
	for to, want := range map[string]string{
		"postgres://" + standby.Addr:                      "standby",
		"postgres://127.0.0.1:1":                          "refused",
		"http://x":                                        "postgres://",
		"postgres://postgres:x@" + standby.Addr:           "credentials",
		"postgres://" + standby.Addr + "?sslmode=require": "TLS",
	} {
		if _, err := r.g.Move(t.Context(), control.MoveRequest{To: to}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", to, err)
		}
	}
	r.node.Stop()
	r.node.Start(t)
	if _, err := r.g.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, c, "SELECT current_setting('app.x')"); got != "kept" {
		t.Errorf("app.x is %s", got)
	}
}

// A cancellation with the key from the old server reaches the server that the client has been moved to.
func TestCancelAfterMove(t *testing.T) {
	r, standby := newMovable(t)
	c := r.connect(t, "scrammer", "")
	r.switchover(t, standby, control.HoldRequest{})
	stopped := make(chan error, 1)
	go func() {
		_, err := c.PgConn().Exec(context.Background(), "SELECT pg_sleep(600)").ReadAll()
		stopped <- err
	}()
	testenv.Eventually(t, "the statement runs", func() bool {
		return standby.SQL(t, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "1"
	})
	if err := c.PgConn().CancelRequest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-stopped; err == nil || !strings.Contains(err.Error(), "57014") {
		t.Errorf("cancelled: %v", err)
	}
}

// Idle clients move; make full uses 500.
func TestManyIdle(t *testing.T) {
	r, standby := newMovable(t)
	clients := make([]*pgx.Conn, 50)
	if testenv.IsFull() {
		clients = make([]*pgx.Conn, 500)
	}
	for i := range clients {
		clients[i] = r.connect(t, "scrammer", "")
	}
	st := r.switchover(t, standby, control.HoldRequest{})
	t.Logf("%d sessions, longest wait %.3f s", len(clients), float64(st.Longest))
	for _, c := range clients {
		ask(t, c, "SELECT 'x'")
	}
}

// The gateway's queries on a client's connection leave the client's unnamed statement unchanged. A failed query
// leaves nothing behind that would make the next one fail.
func TestQuestionsKeepUnnamedStatement(t *testing.T) {
	r := newRig(t, withStateFile(t))
	c := r.connect(t, "scrammer", "")
	if _, err := c.PgConn().Prepare(t.Context(), "", "SELECT $1::text", nil); err != nil {
		t.Fatal(err)
	}
	uses := func(after string) {
		t.Helper()
		if got := c.PgConn().ExecPrepared(t.Context(), "", [][]byte{[]byte("kept")}, nil, nil).Read(); got.Err != nil || string(got.Rows[0][0]) != "kept" {
			t.Errorf("after %s: %v", after, got.Err)
		}
	}
	if _, err := r.g.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	uses("a check")
	if _, err := r.g.Hold(t.Context(), control.HoldRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.g.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	uses("a hold")
	for _, s := range r.g.all() {
		if !s.tryHold() {
			t.Fatal("not idle")
		}
		for _, one := range []struct{ text, want string }{{"SELECT 1/0", "division by zero"}, {"SELECT 'answer'", "answer"}} {
			if answer, err := s.ask(t.Context(), one.text); err != nil || !strings.Contains(string(answer), one.want) {
				t.Errorf("%s: %q %v", one.text, answer, err)
			}
		}
		s.release(true)
	}
	uses("a failed question")
	if got := ask(t, c, "SELECT count(*)::text FROM pg_prepared_statements WHERE name LIKE 'cinch%'"); got != "0" {
		t.Errorf("%s statements of the gateway are left", got)
	}
}

// A client that disconnects properly while it is held and its server is down is removed. Messages that begin no
// transaction wait, too.
func TestLeavesWhileHeld(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, newNode(t, testenv.PostgresConfig{}), "", withStateFile(t))
	stays, leaves := r.connect(t, "scrammer", ""), r.connect(t, "scrammer", "")
	if _, err := r.g.Hold(t.Context(), control.HoldRequest{Lease: 3600}); err != nil {
		t.Fatal(err)
	}
	r.node.Kill()
	testenv.Eventually(t, "the server is lost", func() bool {
		return !slices.ContainsFunc(r.g.all(), func(s *session) bool { return !s.isLost() })
	})
	_, _ = leaves.PgConn().Conn().Write([]byte("X\x00\x00\x00\x04"))
	_, _ = stays.PgConn().Conn().Write([]byte("H\x00\x00\x00\x04"))
	testenv.Eventually(t, "one session is over, and one waits", func() bool {
		st := r.g.State()
		return len(st.Sessions) == 1 && st.Waiting == 1
	})
	r.node.Start(t)
	if _, err := r.g.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask(t, stays, "SELECT 'goes on'")
}

// A caller that cancels a check or a hold, for example with Ctrl-C, ends no session. No further queries are sent, and
// those that were sent already are answered.
func TestCancelledHoldsEndNoSessions(t *testing.T) {
	r := newRig(t, withStateFile(t))
	var clients []*pgx.Conn
	for range 8 {
		clients = append(clients, r.connect(t, "scrammer", ""))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.g.Check(ctx); err != nil {
		t.Error(err)
	}
	if _, err := r.g.Hold(ctx, control.HoldRequest{}); err == nil {
		t.Error("clients are held for a caller that has gone")
	}
	for _, c := range clients {
		ask(t, c, "SELECT 'goes on'")
	}
	if _, err := r.g.Hold(t.Context(), control.HoldRequest{}); err != nil {
		t.Error(err)
	}
}
