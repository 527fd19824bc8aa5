package rollout

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/test/testenv"
)

// hostile is a harmful action on the servers when a roll-out takes a step.
type hostile struct {
	name string
	at   Step
	does func(t *testing.T, c *Cell)
	says string // the error of the first run; "": none
	then string // the primary after it
	ends string // the primary after another run

	short bool // run without CINCH_FULL=1, too
}

var hostilities = []hostile{
	{
		name: "the shutdown hangs", at: StepFence, does: func(t *testing.T, c *Cell) { signalTo(t, &c.Nodes[0], "checkpointer", syscall.SIGSTOP) },
		says: "pg_ctl stop", then: "a", ends: "a2",
	}, {
		name: "a supervisor starts the old primary behind the fence", at: StepPromote, does: func(t *testing.T, c *Cell) { mustStart(t, &c.Nodes[0]) },
		then: "a2", ends: "a2", short: true,
	}, {
		name: "the mark is removed, and the old primary runs again", at: StepPromote, does: func(t *testing.T, c *Cell) {
			mustRemove(t, &c.Nodes[0], "standby.signal")
			mustStart(t, &c.Nodes[0])
		}, says: "a primary answers", then: "a", ends: "aborted",
	}, {
		name: "the mark is removed", at: StepPromote, does: func(t *testing.T, c *Cell) { mustRemove(t, &c.Nodes[0], "standby.signal") },
		says: "would start as a primary", ends: "aborted",
	}, {
		name: "the old primary has run meanwhile", at: StepPromote, does: func(t *testing.T, c *Cell) {
			a := &c.Nodes[0]
			text, err := a.command(t.Context(), "cat", a.signalFile())
			if err != nil {
				t.Error(err)
			}
			mustRemove(t, a, "standby.signal")
			mustStart(t, a)
			if err := errors.Join(a.stop(t.Context(), time.Minute), a.markStandby(t.Context(), text, text, "")); err != nil {
				t.Error(err)
			}
		}, says: "has run since it was fenced", ends: "aborted",
	}, {
		name: "the old primary is killed and the new node promoted by hand", at: StepFence, does: func(t *testing.T, c *Cell) {
			kill9(t, &c.Nodes[0])
			mustExec(t, c.Nodes[0].Replacement, "SELECT pg_promote()")
		}, says: "this can't be undone", then: "a2",
	}, {
		name: "both is done by hand, in order", at: StepFence, does: func(t *testing.T, c *Cell) {
			if err := c.Nodes[0].stop(t.Context(), time.Minute); err != nil {
				t.Error(err)
			}
			mustExec(t, c.Nodes[0].Replacement, "SELECT pg_promote()")
		}, then: "a2", ends: "a2",
	}, {
		name: "directory is that of a copy", at: StepFence, does: func(t *testing.T, c *Cell) {
			a := &c.Nodes[0]
			copied := a.Directory + "-copy"
			if err := a.stop(t.Context(), time.Minute); err != nil {
				t.Error(err)
			}
			if _, err := a.command(t.Context(), "cp", "-a", a.Directory, copied); err != nil {
				t.Error(err)
			}
			mustStart(t, a)
			a.Directory = copied
		}, says: "a primary answers at the URL", then: "a",
	}, {
		name: "directory is that of another server", at: StepFence, does: func(t *testing.T, c *Cell) {
			a := &c.Nodes[0]
			other := *a
			other.Directory += "-other"
			mustRun(t, a, "pg_basebackup", "-D", other.Directory, "-d", a.URL, "-R", "-c", "fast", "--no-sync")
			script := `echo "port = $1" >> "$2/postgresql.auto.conf"`
			if _, err := a.command(t.Context(), "sh", "-c", script, "sh", strconv.Itoa(testenv.FreePort(t)), other.Directory); err != nil {
				t.Error(err)
			}
			mustStart(t, &other)
			t.Cleanup(func() {
				ctx := context.WithoutCancel(t.Context())
				if marked, err := other.exists(ctx, other.signalFile()); !marked || err != nil {
					t.Errorf("the other server would start as a primary: %v", err)
				}
				_ = other.stop(ctx, time.Minute)
			})
			a.Directory = other.Directory
		}, says: errAnotherServer.Error(), then: "a",
	},
}

// Whatever is done to the servers, the roll-out never makes two primaries, nothing is lost, and its error
// says what is wrong.
func TestHostile(t *testing.T) {
	for _, h := range hostilities {
		t.Run(strings.ReplaceAll(h.name, " ", "_"), func(t *testing.T) {
			if !h.short {
				testenv.Full(t)
			}
			t.Parallel()
			h.run(t)
		})
	}
}

func (h hostile) run(t *testing.T) {
	c := newCell(t)
	c.Gates.Shutdown = config.Duration(5 * time.Second)
	a := c.Nodes[0] // before anything is done to it
	mustExec(t, &a, accounts)
	g := &gate{url: a.URL}
	stop := g.transfers(t, 2, true)
	r := &Rollout{Cell: c, clients: g, Yes: true}
	r.dies = func(s Step, done bool) bool {
		if s == h.at && !done {
			h.does(t, c)
		}
		return false
	}
	err := r.Run(t.Context())
	if h.says == "" && err != nil || h.says != "" && (err == nil || !strings.Contains(err.Error(), h.says)) {
		t.Errorf("the error is %v, and should say %q", err, h.says)
	}
	h.primary(t, c, &a, h.then)
	switch {
	case h.ends == "aborted":
		if err := (&Rollout{Cell: c, clients: g}).Abort(t.Context()); err != nil {
			t.Error(err)
		}
		h.primary(t, c, &a, "a")
	case h.ends != "":
		if err := (&Rollout{Cell: c, clients: g, Yes: true}).Run(t.Context()); err != nil {
			t.Error(err)
		}
		h.primary(t, c, &a, h.ends)
	}
	if committed := stop(); h.ends != "" {
		h.nothingLost(t, c, &a, committed)
	}
}

// primary fails unless this node, and no other, takes writes; "": none may.
func (h hostile) primary(t *testing.T, c *Cell, a *Node, want string) {
	t.Helper()
	var found []string
	for _, n := range []*Node{a, c.Nodes[0].Replacement} {
		if standby, err := n.inRecovery(t.Context()); err == nil && !standby {
			found = append(found, n.Name)
		}
	}
	if got := strings.Join(found, " "); got != want {
		t.Errorf("primaries: %q, there should be %q", got, want)
	}
}

func (h hostile) nothingLost(t *testing.T, c *Cell, a *Node, committed int) {
	t.Helper()
	primary := a
	if standby, err := a.inRecovery(t.Context()); err != nil || standby {
		primary = c.Nodes[0].Replacement
	}
	var now, total int
	if _, err := fmt.Sscanf(ledger(t, primary), "%d transfers, %d in accounts", &now, &total); err != nil || now < committed || now > committed+2 || total != 2000 {
		t.Errorf("%d transfers, %d were committed, %d in accounts: %v", now, committed, total, err)
	}
}

func mustStart(t *testing.T, n *Node) {
	t.Helper()
	if err := n.start(t.Context()); err != nil {
		t.Error(err)
	}
}

func mustRemove(t *testing.T, n *Node, file string) {
	t.Helper()
	if _, err := n.command(t.Context(), "rm", filepath.Join(n.Directory, file)); err != nil {
		t.Error(err)
	}
}

// signalTo sends a signal to a process of a server, by the server's name for the process.
func signalTo(t *testing.T, n *Node, kind string, sig syscall.Signal) {
	t.Helper()
	pid, err := value[int](t.Context(), n, "SELECT pid FROM pg_stat_activity WHERE backend_type = $1", kind)
	if err == nil {
		err = syscall.Kill(pid, sig)
	}
	if err != nil {
		t.Error(err)
	}
}

// A supervisor that starts the old primary whenever it is down makes the roll-out fail, and the old node is
// the primary again.
func TestSupervisor(t *testing.T) {
	testenv.Full(t)
	c := newCell(t)
	c.Gates.Shutdown = config.Duration(10 * time.Second)
	a := &c.Nodes[0]
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	r := &Rollout{Cell: c, clients: &gate{url: a.URL}, Yes: true}
	r.dies = func(s Step, done bool) bool {
		if s == StepFence && !done {
			go supervise(ctx, a, over)
		}
		return false
	}
	err := r.Run(t.Context())
	cancel()
	<-over
	if err == nil {
		t.Error("it went on, though a supervisor starts the old primary")
	}
	t.Log(err)
	if err := (&Rollout{Cell: c, clients: &gate{url: a.URL}}).Abort(t.Context()); err != nil {
		t.Error(err)
	}
	if got := onePrimary(t, c); got != "a" {
		t.Errorf("the primary is %s", got)
	}
}

func supervise(ctx context.Context, n *Node, over chan<- struct{}) {
	defer close(over)
	for ctx.Err() == nil {
		if running, err := n.running(ctx); err == nil && !running {
			_ = n.start(ctx)
		}
	}
}

// Settings that are left over from a restore would make the old node a primary as soon as it is started.
func TestLeftOver(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	mustExec(t, &c.Nodes[0], "ALTER SYSTEM SET recovery_target = 'immediate'")
	mustExec(t, &c.Nodes[0], "ALTER SYSTEM SET recovery_target_action = 'promote'")
	var out strings.Builder
	problems, err := (&Rollout{Cell: c, clients: &gate{}}).Plan(t.Context(), &out)
	if err != nil || problems != 1 || !strings.Contains(out.String(), "recovery_target would make a standby end its recovery") {
		t.Errorf("%d problems, %v:\n%s", problems, err, &out)
	}
}

// A mark is removed only by the try that made it, so a late command removes only its own.
func TestMarks(t *testing.T) {
	dir, as := testenv.PostgresDir(t)
	n := &Node{Name: "a", Directory: dir, Run: as}
	for i, step := range []struct{ do, mark, want string }{
		{"unmark", "1", "false"}, {"mark", "1", "true"}, {"unmark", "0", "error"}, {"mark", "2", "true"}, {"unmark", "1", "error"}, {"unmark", "2", "false"},
	} {
		var err error
		if step.do == "mark" {
			err = n.markStandby(t.Context(), step.mark, markPrefix, "")
		} else {
			err = n.unmarkStandby(t.Context(), step.mark)
		}
		there, lookErr := n.exists(t.Context(), n.signalFile())
		got := strconv.FormatBool(there)
		if errors.Is(err, errMark) {
			got, err = "error", nil
		}
		if err = errors.Join(err, lookErr); err != nil || got != step.want {
			t.Errorf("%d: %s %s: %s, should be %s: %v", i, step.do, step.mark, got, step.want, err)
		}
	}
}
