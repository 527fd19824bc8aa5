package rollout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/test/testenv"
)

// at calls do once, when a step is about to be taken or, if behind is true, has been taken.
func at(step Step, behind bool, do func()) func(Step, bool) bool {
	done := false
	return func(s Step, is bool) bool {
		if s == step && is == behind && !done {
			done = true
			do()
		}
		return false
	}
}

// mustSay fails unless an error is of a kind and contains a text.
func mustSay(t *testing.T, err, kind error, says string) {
	t.Helper()
	if err == nil || kind != nil && !errors.Is(err, kind) || !strings.Contains(err.Error(), says) {
		t.Errorf("the error is %v, and should say %q", err, says)
	}
}

func slots(t *testing.T, n *Node) string {
	t.Helper()
	names, err := value[string](t.Context(), n, "SELECT coalesce(string_agg(slot_name, ' ' ORDER BY 1), '') FROM pg_replication_slots")
	if err != nil {
		t.Error(err)
	}
	return names
}

// Tablespaces are copied. Leftovers of an earlier try are removed before the next one. When an old node is
// destroyed, only other servers' files stay.
func TestTablespaces(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	c := newCell(t)
	a, made := &c.Nodes[0], c.Nodes[0].Replacement
	old, its := a.Directory+"-space", made.Directory+"-space=2"
	if _, err := a.command(t.Context(), "mkdir", old, old+"/PG_9_others"); err != nil {
		t.Fatal(err)
	}
	mustExec(t, a, "CREATE TABLESPACE fast LOCATION '"+old+"'")
	mustExec(t, a, "CREATE TABLE t TABLESPACE fast AS SELECT i FROM generate_series(1, 1000) i")
	r := &Rollout{Cell: c, Yes: true, DestroyOld: true}
	mustSay(t, r.Run(t.Context()), ErrCheck, "has no new directory")
	made.Tablespaces = map[string]string{old: its}
	killedAt(t, c, &gate{}, StepBackup, true)
	other := *c
	other.State += "-2"
	// The other roll-out was begun on another machine.
	mustSay(t, (&Rollout{Cell: &other, Yes: true}).Run(t.Context()), nil, "belongs to another roll-out ("+r.state.ID)
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rows, err := value[int](t.Context(), made, "SELECT count(*) FROM t"); err != nil || rows != 1000 {
		t.Errorf("%d rows, %v", rows, err)
	}
	left, err := a.command(t.Context(), "sh", "-c", `ls -A "$1" "$2"; ls -d "$3"*.cinch-rollout`, "sh", a.Directory, old, made.Directory)
	if want := fmt.Sprintf("%s:\n\n%s:\nPG_9_others\n", a.Directory, old); !strings.Contains(fmt.Sprint(left, err), want) || strings.Contains(left, "cinch-rollout") {
		t.Errorf("what is left: %s %v", left, err)
	}
}

// Commits that wait for a standby are not left waiting when it is stopped.
func TestSynchronousStandby(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	c := newCell(t, "b")
	a, b := &c.Nodes[0], &c.Nodes[1]
	mustExec(t, a, "ALTER SYSTEM SET synchronous_standby_names = 'cinch_b'")
	mustExec(t, a, "SELECT pg_reload_conf()")
	r := &Rollout{Cell: c, Yes: true}
	mustSay(t, r.Run(t.Context()), ErrGate, "add cinch_b2 to synchronous_standby_names of a")
	if running, err := b.running(t.Context()); err != nil || !running || r.state.Step != StepRetire {
		t.Errorf("the old standby runs: %t %v; the step is %s", running, err, r.state.Step)
	}
	mustExec(t, a, "ALTER SYSTEM SET synchronous_standby_names = 'cinch_b, cinch_b2'")
	mustExec(t, a, "SELECT pg_reload_conf()")
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustExec(t, a.Replacement, "CREATE TABLE t (i int)") // waits for b2
}

// A full disk in the middle of the base backup fails that step. No slot is left, which would fill the primary's
// disk, too. Once there is room the roll-out continues.
func TestFullDisk(t *testing.T) {
	testenv.Full(t)
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	t.Parallel()
	c := newCell(t)
	a, made := &c.Nodes[0], c.Nodes[0].Replacement
	made.Directory = filepath.Join(filepath.Dir(made.Directory), "small", "a2")
	if _, err := a.command(t.Context(), "mkdir", filepath.Dir(made.Directory)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=400M,mode=777", "tmpfs", filepath.Dir(made.Directory)).CombinedOutput(); err != nil {
		without(t, "this machine does not allow mounts: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", filepath.Dir(made.Directory)).Run() })
	filler := filepath.Join(filepath.Dir(made.Directory), "filler")
	r := &Rollout{Cell: c, Yes: true}
	r.dies = at(StepBackup, false, func() {
		if _, err := a.command(t.Context(), "sh", "-c", `fallocate -l 380M "$1"`, "sh", filler); err != nil {
			t.Error(err)
		}
	})
	mustSay(t, r.Run(t.Context()), ErrCommand, "No space left")
	if got := slots(t, a); got != "" {
		t.Errorf("slots: %s", got)
	}
	mustRemove(t, &Node{Directory: filepath.Dir(made.Directory)}, "filler")
	if err := r.Run(t.Context()); err != nil {
		t.Error(err)
	}
	if got := onePrimary(t, c); got != "a2" {
		t.Errorf("the primary is %s", got)
	}
}

// A new node whose slot the primary has invalidated never catches up. That is reported at once, and the next
// try makes another copy.
func TestLostSlot(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	c := newCell(t)
	a := &c.Nodes[0]
	mustExec(t, a, "ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
	mustExec(t, a, "ALTER SYSTEM SET max_wal_size = '2MB'")
	mustExec(t, a, "ALTER SYSTEM SET min_wal_size = '2MB'")
	mustExec(t, a, "SELECT pg_reload_conf()")
	c.Gates.CatchUp = config.Duration(answerTime)
	r := &Rollout{Cell: c, Yes: true, Tell: telling(t)}
	r.dies = at(StepBackup, true, func() {
		for range 8 {
			mustExec(t, a, "CREATE TABLE IF NOT EXISTS t (i int); SELECT pg_switch_wal()")
			mustExec(t, a, "CHECKPOINT")
		}
	})
	mustSay(t, r.Run(t.Context()), ErrGate, "the slot cinch_a2 at a is lost")
	if err := r.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := onePrimary(t, c); got != "a2" {
		t.Errorf("the primary is %s", got)
	}
}

// A server that is promoted by other means ends the roll-out before clients are held.
func TestPromotedByOthers(t *testing.T) {
	testenv.Full(t)
	for name, one := range map[string]struct {
		step Step
		who  func(c *Cell) *Node
		says string
	}{
		"the new node":     {StepStart, func(c *Cell) *Node { return c.Nodes[0].Replacement }, "a2 is a primary"},
		"another standby":  {StepGates, func(c *Cell) *Node { return c.Nodes[1].Replacement }, "b2 is a primary"},
		"one that is next": {StepProvision, func(c *Cell) *Node { return &c.Nodes[1] }, "b is a primary"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			c := newCell(t, "b")
			g := &gate{url: c.Nodes[0].URL}
			r := &Rollout{Cell: c, clients: g, Yes: true}
			r.dies = func(s Step, done bool) bool {
				if s == one.step && done && (r.state.At == 1) == (one.step != StepProvision) {
					mustExec(t, one.who(c), "SELECT pg_promote()")
				}
				return false
			}
			mustSay(t, r.Run(t.Context()), errRole, one.says)
			if standby, err := c.Nodes[0].inRecovery(t.Context()); err != nil || standby || g.held {
				t.Errorf("a is a standby: %t %v; clients are held: %t", standby, err, g.held)
			}
		})
	}
}

// Machines that were restarted, so that no server runs, cost no more than another run; and an abort before
// the promotion restores the old primary.
func TestReboot(t *testing.T) {
	testenv.Full(t)
	for _, one := range []struct {
		step  Step
		abort bool
		ends  string
	}{{StepGates, false, "a2"}, {StepPromote, true, "a"}, {StepFence, true, "a"}} {
		t.Run(fmt.Sprintf("%s/abort=%t", one.step, one.abort), func(t *testing.T) {
			t.Parallel()
			c := newCell(t)
			a, made := &c.Nodes[0], c.Nodes[0].Replacement
			mustExec(t, a, accounts)
			g := &gate{url: a.URL}
			killedAt(t, c, g, one.step, false)
			kill9(t, a)
			kill9(t, made)
			if one.step == StepGates { // the old primary's machine has a supervisor
				mustStart(t, a)
			}
			r := &Rollout{Cell: c, clients: g, Yes: true}
			var err error
			if one.abort {
				err = r.Abort(t.Context())
			} else {
				err = r.Run(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
			if got := onePrimary(t, c); got != one.ends {
				t.Errorf("the primary is %s", got)
			}
		})
	}
}

// A state that can't be written ends a switchover before the promotion, and the old node is the primary.
// Clients that already wait for the new primary are not kept waiting for that.
func TestNoPlaceForState(t *testing.T) {
	testenv.Full(t)
	for _, one := range []struct {
		behind Step
		then   string
	}{{StepHold, "a"}, {StepFence, "a"}, {StepPromote, "a2"}} {
		t.Run(string(one.behind), func(t *testing.T) {
			t.Parallel()
			c := newCell(t)
			c.State = filepath.Join(t.TempDir(), "place", "state.json")
			place := filepath.Dir(c.State)
			if err := os.Mkdir(place, 0o700); err != nil {
				t.Fatal(err)
			}
			mustExec(t, &c.Nodes[0], accounts)
			g := &gate{url: c.Nodes[0].URL}
			stop := g.transfers(t, 2, false)
			r := &Rollout{Cell: c, clients: g, Yes: true}
			r.dies = at(one.behind, true, func() {
				if err := os.Rename(place, place+"-away"); err != nil {
					t.Error(err)
				}
			})
			mustSay(t, r.Run(t.Context()), os.ErrNotExist, "place")
			if got := onePrimary(t, c); got != one.then || g.held {
				t.Errorf("the primary is %s, clients are held: %t", got, g.held)
			}
			if err := os.Rename(place+"-away", place); err != nil {
				t.Fatal(err)
			}
			for range 3 { // the new node may not have found the restarted old primary again
				if err := (&Rollout{Cell: c, clients: g, Yes: true}).Run(t.Context()); err == nil {
					break
				}
			}
			committed := stop()
			if got := onePrimary(t, c); got != "a2" {
				t.Fatalf("the primary is %s", got)
			}
			mustHold(t, c.Nodes[0].Replacement, committed, 0)
		})
	}
}

// A state that can't be written when a promotion is resumed never makes two primaries: the new node may be a
// primary already, and may not answer.
func TestNoPlaceForResumedPromotion(t *testing.T) {
	for _, one := range []struct {
		name           string
		promoted, mute bool // the new node is a primary; its server can't be reached
		says, then     string
	}{
		{name: "promoted", promoted: true, says: "place", then: "a2"},
		{name: "promoted, no answer", promoted: true, mute: true, says: ErrNoWayBack.Error(), then: "a2"},
		{name: "not promoted", says: "place", then: "a"},
		{name: "not promoted, no answer", mute: true, says: "place", then: "a"},
	} {
		t.Run(strings.ReplaceAll(one.name, " ", "_"), func(t *testing.T) {
			if !one.promoted || !one.mute {
				testenv.Full(t)
			}
			t.Parallel()
			c := newCell(t)
			c.State = filepath.Join(t.TempDir(), "place", "state.json")
			place := filepath.Dir(c.State)
			if err := os.Mkdir(place, 0o700); err != nil {
				t.Fatal(err)
			}
			mustExec(t, &c.Nodes[0], accounts)
			g := &gate{url: c.Nodes[0].URL}
			killedAt(t, c, g, StepPromote, one.promoted)
			made := c.Nodes[0].Replacement
			url := made.URL
			if one.mute {
				made.URL = "postgres://postgres@127.0.0.1:1/postgres"
			}
			r := &Rollout{Cell: c, clients: g, Yes: true}
			r.Tell = func(_, text string) { // called before the state is written
				if text == string(StepPromote) {
					if err := os.Rename(place, place+"-away"); err != nil {
						t.Error(err)
					}
				}
			}
			mustSay(t, r.Run(t.Context()), nil, one.says)
			made.URL = url
			if got := onePrimary(t, c); got != one.then {
				t.Errorf("the primary is %s", got)
			}
			if waiting := one.promoted && one.mute; g.held != waiting {
				t.Errorf("clients are held: %t", g.held)
			}
			if err := os.Rename(place+"-away", place); err != nil {
				t.Fatal(err)
			}
			r.Tell = nil
			if !one.promoted {
				if err := r.Abort(t.Context()); err != nil {
					t.Error(err)
				}
			} else if err := r.Run(t.Context()); err != nil {
				t.Error(err)
			}
			if got := onePrimary(t, c); got != one.then || g.held {
				t.Errorf("in the end the primary is %s, clients are held: %t", got, g.held)
			}
		})
	}
}

// A standby's roll-out that was killed at any step is resumed, or aborted: then the old standby follows as
// before.
func TestStandbyKilled(t *testing.T) {
	testenv.Full(t)
	for _, step := range standbySteps {
		for _, behind := range []bool{false, true} {
			t.Run(strings.ReplaceAll(fmt.Sprintf("%s/behind=%t", step, behind), " ", "_"), func(t *testing.T) {
				t.Parallel()
				c := newCell(t, "b")
				standbyKilled(t, c, step, behind)
			})
		}
	}
}

func standbyKilled(t *testing.T, c *Cell, step Step, behind bool) {
	t.Helper()
	a, b := &c.Nodes[0], &c.Nodes[1]
	before := slots(t, a)
	r := &Rollout{Cell: c, Yes: true}
	ctx, cancel := context.WithCancelCause(t.Context())
	r.dies = func(s Step, done bool) bool {
		if s != step || done != behind {
			return false
		}
		cancel(errKilled)
		return true
	}
	if err := r.Run(ctx); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	err := (&Rollout{Cell: c, Yes: true}).Abort(t.Context())
	if step == StepDestroy {
		mustSay(t, err, ErrNoWayBack, "b was confirmed")
	} else {
		if err != nil {
			t.Error(err)
		}
		if follows, err := b.receives(t.Context()); err != nil || !follows {
			t.Errorf("b follows: %t %v", follows, err)
		}
		if got := slots(t, a); got != before {
			t.Errorf("slots of a: %q, there were %q", got, before)
		}
	}
	if err := (&Rollout{Cell: c, Yes: true}).Run(t.Context()); err != nil {
		t.Error(err)
	}
	if got := onePrimary(t, c); got != "a2" {
		t.Errorf("the primary is %s", got)
	}
	if got := slots(t, a.Replacement); got != "cinch_b2" {
		t.Errorf("slots of a2: %q", got)
	}
}
