package rollout

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

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
