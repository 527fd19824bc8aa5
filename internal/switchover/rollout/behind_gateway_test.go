package rollout

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/internal/observe/admin"
	"github.com/cinch-layer/cinch/internal/switchover/postgres/control"
	"github.com/cinch-layer/cinch/test/testenv"
)

// behind puts a gateway in front of a cell, and clients in front of the gateway.
func behind(t *testing.T, c *Cell) (*testenv.GatewayServer, *clients) {
	t.Helper()
	a, dir := &c.Nodes[0], t.TempDir()
	mustExec(t, a, accounts)
	mustExec(t, a, "ALTER TABLE ledger DROP CONSTRAINT ledger_pkey")
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("a token of some length\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := testenv.Gateway(t, testenv.GatewayConfig{
		Protocol: "postgres", Upstream: a.URL + "?state_file=" + filepath.Join(dir, "gateway.json"), Args: []string{"--admin-token-file", token},
	})
	c.Hooks, c.Gateway = Hooks{}, Gateway{Admin: g.Admin, TokenFile: token, Unmovable: "end"}
	cfg, err := pgx.ParseConfig("postgres://postgres@" + g.Addr + "/postgres?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	return g, startClients(t, cfg, 2)
}

// On every supported major version of PostgreSQL a standby and then the primary are replaced, and confirmed
// commits of the gateway's clients are kept.
func TestLines(t *testing.T) {
	testenv.Full(t)
	// All other tests use the first line.
	for _, line := range slices.Concat(testenv.PostgresLines[1:], testenv.MorePostgresLines) {
		t.Run(line.Name, func(t *testing.T) {
			t.Parallel()
			c := newCellOf(t, line.Programs(t), "b")
			_, cs := behind(t, c)
			r := &Rollout{Cell: c, Yes: true}
			if err := r.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			cs.goesOn(t)
			committed, lost, twice := cs.judge(t, c.Nodes[0].Replacement)
			t.Logf("%d committed, %d lost, %d twice, %d connections broke, clients waited for %v", committed, lost, twice, cs.broke, r.state.Nodes["a"].Pause)
			if got := onePrimary(t, c); got != "a2" || lost+twice+cs.broke > 0 {
				t.Errorf("the primary is %s; %d lost, %d twice, %d connections broke", got, lost, twice, cs.broke)
			}
			b2 := c.Nodes[1].Replacement
			testenv.Eventually(t, "b2 follows", func() bool { return ledger(t, b2) == ledger(t, c.Nodes[0].Replacement) })
		})
	}
}

// If the gateway is killed and restarted while clients are held, or the lease ends, connections are lost but no
// transactions.
func TestGatewayGoes(t *testing.T) {
	testenv.Full(t)
	cases := []struct {
		name string
		at   Step
		does func(t *testing.T, g *testenv.GatewayServer, token string)
	}{
		{"killed", StepFence, restart}, {"killed", StepPromote, restart}, {"killed", StepMove, restart}, {"lease", StepMove, endLease},
	}
	for _, one := range cases {
		t.Run(one.name+"/"+string(one.at), func(t *testing.T) {
			t.Parallel()
			c := newCell(t)
			g, cs := behind(t, c)
			r := &Rollout{Cell: c, Yes: true}
			r.dies = func(s Step, done bool) bool {
				if s == one.at && !done {
					one.does(t, g, c.Gateway.TokenFile)
				}
				return false
			}
			if err := r.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			cs.goesOn(t)
			committed, lost, twice := cs.judge(t, c.Nodes[0].Replacement)
			t.Logf("%d committed, %d lost, %d twice", committed, lost, twice)
			if got := onePrimary(t, c); got != "a2" || lost+twice > 0 {
				t.Errorf("the primary is %s; %d lost, %d twice", got, lost, twice)
			}
		})
	}
}

func restart(t *testing.T, g *testenv.GatewayServer, _ string) {
	g.Kill()
	if err := g.Restart(); err != nil {
		t.Error(err)
	}
}

func endLease(t *testing.T, g *testenv.GatewayServer, token string) {
	client := &control.Client{Admin: g.Admin, TokenFile: token}
	if _, err := client.Hold(t.Context(), control.HoldRequest{Renew: true, Lease: 0.01}); err != nil {
		t.Error(err)
	}
	testenv.Eventually(t, "clients continue by themselves", func() bool {
		s, err := client.State(t.Context())
		return err == nil && s.Phase == control.Open
	})
}

// Clients that go through cinch serve --postgres keep their connections, and see no error.
func TestThroughGateway(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	a, dir := &c.Nodes[0], t.TempDir()
	mustExec(t, a, accounts)
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("a token of some length\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	gateway := testenv.Gateway(t, testenv.GatewayConfig{
		Protocol: "postgres", Upstream: a.URL + "?state_file=" + filepath.Join(dir, "gateway.json"), Args: []string{"--admin-token-file", token},
	})
	c.Hooks, c.Gateway = Hooks{}, Gateway{Admin: gateway.Admin, TokenFile: token}
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var done atomic.Int64
	for i := range 4 {
		conn, err := pgx.Connect(t.Context(), "postgres://postgres@"+gateway.Addr+"/postgres?sslmode=disable")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		clients.Go(func() {
			for number := 0; ctx.Err() == nil; number++ {
				if _, err := conn.Exec(context.Background(), "INSERT INTO ledger VALUES ($1, $2)", i, number); err != nil {
					t.Error(err)
					return
				}
				done.Add(1)
				_ = pauseFor(ctx, pollPause/20)
			}
		})
	}
	err := (&Rollout{Cell: c, Yes: true, Tell: func(node, text string) { t.Log(node, text) }}).Run(t.Context())
	cancel()
	clients.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if got := ledger(t, a.Replacement); got != fmt.Sprintf("%d transfers, 2000 in accounts", done.Load()) {
		t.Errorf("%s, and %d were committed", got, done.Load())
	}
	var status admin.Status
	testenv.AdminJSON(t, gateway.Admin, "/api/status", &status)
	if shown := status.Gateways[0].Report; shown == nil || shown.Title != "Roll-out of orders" || len(shown.Rows) != 1 || shown.Rows[0][1] != "replaced" || len(shown.Rows[0]) != len(shown.Header) {
		t.Errorf("the admin page shows %+v", shown)
	}
}
