package rollout

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/internal/switchover/postgres/control"
	"github.com/cinch-layer/cinch/test/testenv"
)

const everybody = "host all all all trust\nhost replication all all trust\n"

// A new node that the roll-out reaches, but that rejects the gateway's clients, is found before clients are
// held.
func TestOutOfReach(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	a, made := &c.Nodes[0], c.Nodes[0].Replacement
	g, cs := behind(t, c)
	c.Gateway.Unmovable = control.Abort
	mustExec(t, a, "CREATE ROLE app LOGIN")
	app, err := pgx.Connect(t.Context(), "postgres://app@"+g.Addr+"/postgres?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close(context.WithoutCancel(t.Context()))
	hba := func(text string) {
		if _, err := made.command(t.Context(), "sh", "-c", `printf "$1" > "$2"`, "sh", text, filepath.Join(made.Directory, "pg_hba.conf")); err != nil {
			t.Error(err)
		}
	}
	r := &Rollout{Cell: c, Yes: true}
	r.dies = at(StepBackup, true, func() { hba("host all app all reject\n" + everybody) })
	mustSay(t, r.Run(t.Context()), ErrGate, "can't move clients to a2: 1 of 2 ways of login that clients have used fail on the new server: app at ")
	client := &control.Client{Admin: g.Admin, TokenFile: c.Gateway.TokenFile}
	if s, err := client.State(t.Context()); err != nil || s.Phase != control.Open || !r.state.Nodes["a"].HeldAt.IsZero() {
		t.Errorf("no client should be held: %+v %v", s, err)
	}
	if got := onePrimary(t, c); got != "a" || r.state.Step != StepHold {
		t.Errorf("the primary is %s, the step %s", got, r.state.Step)
	}
	hba(everybody)
	if err := made.stop(t.Context(), c.shutdownTime()); err != nil { // the roll-out starts it again, with these rules
		t.Fatal(err)
	}
	refusedAfterLease(t, c, g, hba)
	hba(everybody)
	mustExec(t, made, "SELECT pg_reload_conf()")
	if err := (&Rollout{Cell: c, Yes: true}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := app.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Error(err)
	}
	cs.goesOn(t)
	if _, lost, twice := cs.judge(t, made); lost+twice+cs.broke > 0 {
		t.Errorf("%d lost, %d twice, %d connections broke", lost, twice, cs.broke)
	}
}

// refusedAfterLease makes a roll-out die before the fence, and its hold end by itself. When it is resumed,
// the new node rejects clients: that is found while the old primary serves.
func refusedAfterLease(t *testing.T, c *Cell, g *testenv.GatewayServer, hba func(string)) {
	t.Helper()
	a, made := &c.Nodes[0], c.Nodes[0].Replacement
	ctx, cancel := context.WithCancelCause(t.Context())
	r := &Rollout{Cell: c, Yes: true}
	r.dies = func(s Step, done bool) bool {
		if s == StepFence {
			cancel(errKilled)
		}
		return s == StepFence
	}
	mustSay(t, r.Run(ctx), errKilled, "")
	endLease(t, g, c.Gateway.TokenFile)
	hba("host all app all reject\n" + everybody)
	mustExec(t, made, "SELECT pg_reload_conf()")
	testenv.Eventually(t, "app can't log in at a2", func() bool {
		_, err := pgx.Connect(t.Context(), strings.Replace(made.URL, "postgres@", "app@", 1))
		return err != nil
	})
	started, err := processOf(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	mustSay(t, (&Rollout{Cell: c, Yes: true}).Run(t.Context()), ErrGate, "can't move clients to a2: 1 of 2 ways")
	if now, err := processOf(t.Context(), a); err != nil || now != started {
		t.Errorf("a was stopped: %q, %q %v", started, now, err)
	}
}

// cutOff simulates a gateway that loses its connection to the new node while clients wait.
type cutOff struct{ *gate }

var errCutOff = errors.New("cut off")

func (c cutOff) Reach(context.Context, *Node) (string, error) {
	if c.held {
		return "", errCutOff
	}
	return "", nil
}

// If that connection is lost after clients were held, they continue at the old primary, which has not been
// stopped.
func TestCutOff(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	a := &c.Nodes[0]
	started, err := processOf(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	g := cutOff{&gate{url: a.URL}}
	r := &Rollout{Cell: c, clients: g, Yes: true}
	mustSay(t, r.Run(t.Context()), errCutOff, "")
	now, err := processOf(t.Context(), a)
	if err != nil || now != started || g.held || r.state.Step != StepHold {
		t.Errorf("%s and %s, held: %t, step %s: %v", started, now, g.held, r.state.Step, err)
	}
	if err := (&Rollout{Cell: c, clients: g}).Abort(t.Context()); err != nil {
		t.Error(err)
	}
}
