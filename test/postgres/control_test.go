package postgres

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/internal/switchover/postgres/control"
	"github.com/cinch-layer/cinch/test/testenv"
)

const token = "a token of some length"

// A gateway can be held and moved on its admin page with the token, and after a restart it still uses the
// server it was moved to.
func TestControl(t *testing.T) {
	old := testenv.NewPostgresNode(t, testenv.PostgresConfig{})
	standby := old.Standby(t)
	dir := t.TempDir()
	file, state := filepath.Join(dir, "token"), filepath.Join(dir, "state.json")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := testenv.Gateway(t, testenv.GatewayConfig{
		Protocol: "postgres", Upstream: fmt.Sprintf("postgres://postgres@%s/postgres?state_file=%s", old.Addr, state),
		Args: []string{"--admin-token-file", file},
	})
	c := &control.Client{Admin: g.Admin, TokenFile: file}
	ctx := t.Context()
	client, err := pgx.Connect(ctx, "postgres://postgres@"+g.Addr+"/postgres?application_name=control")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(ctx)
	if _, err := (&control.Client{Admin: g.Admin}).Hold(ctx, control.HoldRequest{}); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("without the token: %v", err)
	}
	if _, err := c.Hold(ctx, control.HoldRequest{Stuck: "kill"}); err == nil || !strings.Contains(err.Error(), "abort or end") {
		t.Errorf("with an unknown policy: %v", err)
	}
	if _, err := client.Exec(ctx, "CREATE TEMP TABLE x ()"); err != nil {
		t.Fatal(err)
	}
	var refusal *control.Refusal
	if _, err := c.Hold(ctx, control.HoldRequest{}); !errors.As(err, &refusal) || len(refusal.Sessions) != 1 || refusal.Sessions[0].Application != "control" {
		t.Errorf("with a temporary table: %v", err)
	}
	if _, err := client.Exec(ctx, "DROP TABLE x"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Hold(ctx, control.HoldRequest{By: "test"}); err != nil {
		t.Fatal(err)
	}
	if st, err := c.State(ctx); err != nil || st.Phase != control.Held || st.By != "test" || len(st.Sessions) != 1 {
		t.Errorf("%+v, %v", st, err)
	}
	if g.Metric(t, "cinch_postgres_held") != 1 {
		t.Error("the metrics don't say that clients are held")
	}
	old.Stop()
	standby.Promote(t)
	if _, err := c.Move(ctx, control.MoveRequest{To: "postgres://" + standby.Addr}); err != nil {
		t.Fatal(err)
	}
	if st, err := c.Release(ctx); err != nil || !strings.Contains(st.Upstream, standby.Addr) {
		t.Errorf("%+v, %v", st, err)
	}
	var port string
	if err := client.QueryRow(ctx, "SELECT inet_server_port()::text").Scan(&port); err != nil || port != standby.Port {
		t.Errorf("%s, %v", port, err)
	}
	if page := testenv.AdminPage(t, g.Admin, "/api/status"); !strings.Contains(page, standby.Addr) {
		t.Error("the page shows the old server")
	}
	g.Kill()
	if err := g.Restart(); err != nil {
		t.Fatal(err)
	}
	again, err := pgx.Connect(ctx, "postgres://postgres@"+g.Addr+"/postgres")
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close(ctx)
	if !strings.Contains(g.Output(), "the server they were moved to") {
		t.Error("the log does not say that the file counts")
	}
}
