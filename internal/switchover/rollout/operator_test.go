package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/postgres/control"
	"github.com/cinch-layer/cinch/test/testenv"
)

// Tests with operators that mistype, are impatient, or have forgotten what they did last week.

// A confirmation is for one new node. If that node is given up, the confirmation does not count for the next.
func TestConfirmedOnce(t *testing.T) {
	c := &Cell{Name: "orders", State: filepath.Join(t.TempDir(), "state.json"), Nodes: []Node{notThere("a"), notThere("b")}}
	text := strings.NewReplacer(`"fence"`, `"keep", "aborted": true`, `"mark": "m"`, `"confirmed": true`).Replace(goodState)
	if err := os.WriteFile(c.State, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	mustSay(t, (&Rollout{Cell: c}).Confirm(), ErrState, "no node waits")
	mustSay(t, (&Rollout{Cell: c, clients: &gate{}}).Run(t.Context()), ErrCheck, "")
	if s, err := c.ReadState(); err != nil || s.Nodes["a"].Confirmed || s.Nodes["a"].Made != "" || s.Step != StepCheck {
		t.Errorf("%+v %v", s, err)
	}
}

// An abort does not stop another server in the place of the new node, nor a new node that was made the
// primary by hand.
func TestAbortOfOthers(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	made := c.Nodes[0].Replacement
	mustInit(t, made)
	mustStart(t, made)
	mustSay(t, (&Rollout{Cell: c, Yes: true}).Run(t.Context()), nil, "is not empty")
	if err := (&Rollout{Cell: c}).Abort(t.Context()); err != nil {
		t.Error(err)
	}
	if running, err := made.running(t.Context()); err != nil || !running {
		t.Fatalf("another operator's server runs: %t %v", running, err)
	}
	if err := made.stop(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := made.command(t.Context(), "rm", "-r", made.Directory); err != nil {
		t.Fatal(err)
	}
	killedAt(t, c, &gate{}, StepStart, true)
	mustExec(t, made, "SELECT pg_promote()")
	for range 2 {
		mustSay(t, (&Rollout{Cell: c}).Abort(t.Context()), errRole, "a2 is a primary")
	}
	if standby, err := made.inRecovery(t.Context()); err != nil || standby {
		t.Errorf("a server promoted by hand is a primary: %t %v", !standby, err)
	}
}

// mustInit makes an unrelated cluster in a node's directory.
func mustInit(t *testing.T, n *Node) {
	t.Helper()
	mustRun(t, n, "initdb", "-D", n.Directory, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale", "C")
	script := `printf "port = %s\nunix_socket_directories = '%s'\nfsync = off\n" "$1" "$(dirname "$2")" >> "$2/postgresql.conf"`
	if _, err := n.command(t.Context(), "sh", "-c", script, "sh", portOf(t, n), n.Directory); err != nil {
		t.Fatal(err)
	}
}

// A backup of another cell, which a hook has restored, is rejected.
func TestRestoreOfAnotherCell(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	c := newCell(t)
	made := c.Nodes[0].Replacement
	command := remoteCommand(made.Run, made.program("initdb"), "-D", made.Directory, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale", "C")
	c.Hooks.Restore = command
	made.Options["unix_socket_directories"] = filepath.Dir(made.Directory)
	mustSay(t, (&Rollout{Cell: c, Yes: true}).Run(t.Context()), ErrGate, "belongs to another cell")
	onePrimaryAtMost(t, c)
}

// The old data are removed when the new node is in service, and other files there are kept.
func TestDestroyOld(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	a, made := &c.Nodes[0], c.Nodes[0].Replacement
	killedAt(t, c, &gate{}, StepKeep, true)
	r := &Rollout{Cell: c, clients: &gate{}, Yes: true, DestroyOld: true}
	if err := made.stop(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	mustSay(t, r.Run(t.Context()), nil, "the data of a remains")
	mustStart(t, made)
	directory := a.Directory
	a.Directory = filepath.Join(filepath.Dir(directory), "other")
	mustInit(t, a)
	mustSay(t, r.Run(t.Context()), nil, "belongs to another cell")
	a.Directory = directory
	if _, err := a.command(t.Context(), "sh", "-c", `mkdir -p "$1/old/global" && touch "$1/old/global/pg_control"`, "sh", directory); err != nil {
		t.Fatal(err)
	}
	mustSay(t, r.Run(t.Context()), nil, "another server's directory")
	if there, err := a.exists(t.Context(), directory+"/PG_VERSION"); !there || err != nil {
		t.Fatalf("the data are there: %t %v", there, err)
	}
	if _, err := a.command(t.Context(), "rm", "-r", directory+"/old"); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); err != nil {
		t.Error(err)
	}
	if left, err := a.command(t.Context(), "ls", "-A", directory); left != "" || err != nil {
		t.Errorf("what is left: %s %v", left, err)
	}
}

// A standby is not stopped if its replacement has died since its gates.
func TestReplacementDied(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	c := newCell(t, "b")
	a, b := &c.Nodes[0], &c.Nodes[1]
	r := &Rollout{Cell: c, Yes: true}
	r.dies = at(StepRetire, false, func() {
		kill9(t, b.Replacement)
		testenv.Eventually(t, "the primary sees it", func() bool {
			streams, err := a.streamsTo(t.Context(), b.Replacement)
			return err == nil && !streams
		})
	})
	mustSay(t, r.Run(t.Context()), ErrGate, "so b is not stopped")
	if running, err := b.running(t.Context()); err != nil || !running {
		t.Errorf("b runs: %t %v", running, err)
	}
}

// Options can be corrected after the copy; a new node that is down is started before clients are held; when
// the operator ends the roll-out in the middle of a promotion, clients continue.
func TestImpatience(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	c := newCell(t)
	a, made := &c.Nodes[0], c.Nodes[0].Replacement
	mustExec(t, a, accounts)
	g := &gate{url: a.URL}
	made.Options["work_mem"] = "plenty"
	mustSay(t, (&Rollout{Cell: c, clients: g, Yes: true}).Run(t.Context()), ErrCommand, "startup.log")
	made.Options["work_mem"] = "5MB"
	killedAt(t, c, g, StepHold, false)
	kill9(t, made)
	ctx, cancel := context.WithCancel(t.Context())
	r := &Rollout{Cell: c, clients: g, Yes: true}
	r.dies = at(StepPromote, false, cancel)
	if err := r.Run(ctx); !errors.Is(err, context.Canceled) || r.state.Step != StepFollow {
		t.Errorf("it ends at %s: %v", r.state.Step, err)
	}
	if got := onePrimary(t, c); got != "a2" || g.held || g.url != made.URL {
		t.Errorf("the primary is %s, clients are held: %t, at %s", got, g.held, g.url)
	}
}

// A gateway that is another cell's, could not move its clients, or refuses commands is found by the check. A
// hold by another holder stays.
func TestGatewayIsFound(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	c := newCell(t)
	a, dir := &c.Nodes[0], t.TempDir()
	token, other := filepath.Join(dir, "token"), filepath.Join(dir, "other")
	if err := errors.Join(os.WriteFile(token, []byte("a token of some length\n"), 0o600), os.WriteFile(other, []byte("another one of some length\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	forgets := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "postgres", Upstream: a.URL, Args: []string{"--admin-token-file", token}})
	elsewhere := testenv.Gateway(t, testenv.GatewayConfig{
		Protocol: "postgres", Upstream: "postgres://postgres@127.0.0.1:1/postgres?state_file=" + filepath.Join(dir, "gateway.json"), Args: []string{"--admin-token-file", token}, Unready: true,
	})
	c.Hooks = Hooks{}
	for _, one := range []struct {
		gateway Gateway
		says    string
	}{
		{Gateway{Admin: forgets.Admin, TokenFile: token}, "has no state_file"},
		{Gateway{Admin: forgets.Admin, TokenFile: other}, "the gateway at"},
		{Gateway{Admin: forgets.Admin, TokenFile: token, Name: "redis"}, "the gateway at"},
		{Gateway{Admin: elsewhere.Admin, TokenFile: token}, "are served by tcp://127.0.0.1:1, but a is at"},
	} {
		c.Gateway = one.gateway
		var out strings.Builder
		problems, err := (&Rollout{Cell: c}).Plan(t.Context(), &out)
		if err != nil || problems != 1 || !strings.Contains(out.String(), one.says) {
			t.Errorf("%+v: %d problems, %v:\n%s", one.gateway, problems, err, &out)
		}
	}
	held := &control.Client{Admin: forgets.Admin, TokenFile: token}
	if _, err := held.Hold(t.Context(), control.HoldRequest{By: "somebody", Lease: 600}); err != nil {
		t.Fatal(err)
	}
	c.Gateway = Gateway{Admin: forgets.Admin, TokenFile: token}
	clients := c.clients()
	mustSay(t, clients.Hold(t.Context(), time.Second), nil, "somebody")
	if err := clients.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if s, err := held.State(t.Context()); err != nil || s.Phase != control.Held {
		t.Errorf("clients are %s: %v", s.Phase, err)
	}
}

// Ctrl-C restores the old primary even if it has ended the program that reads the output.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	c.Hooks.Fence = []string{"sh", "-c", "kill -INT $PPID; sleep 100"}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), testenv.Cinch(t), "rollout", "run", "--yes", hookedFile(t, c))
	cmd.Stderr = write
	if err := errors.Join(read.Close(), cmd.Start(), write.Close()); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if s, stateErr := c.ReadState(); stateErr != nil || s.Step != StepHold || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("it ended with %v, %v: %+v", err, stateErr, s)
	}
	if got := onePrimary(t, c); got != "a" {
		t.Errorf("the primary is %s", got)
	}
}

// hookedFile is the cell's file for another process, without a gateway.
func hookedFile(t *testing.T, c *Cell) string {
	t.Helper()
	node := func(n *Node) map[string]any {
		return map[string]any{"name": n.Name, "url": n.URL, "directory": n.Directory, "run": n.Run, "bin": n.Bin, "options": n.Options}
	}
	old := node(&c.Nodes[0])
	old["replacement"] = node(c.Nodes[0].Replacement)
	text, err := json.Marshal(map[string]any{"cell": c.Name, "state": c.State, "nodes": []any{old}, "hooks": map[string]any{
		"hold": c.Hooks.Hold, "move": c.Hooks.Move, "release": c.Hooks.Release, "fence": c.Hooks.Fence,
	}})
	file := filepath.Join(t.TempDir(), "cell.yaml")
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// Nothing is deleted without --destroy-old, and nothing before the new node has been confirmed.
func TestDestroy(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	c := newCell(t, "b")
	kept := func(name string, want bool) {
		t.Helper()
		n := c.node(name)
		if there, err := n.exists(t.Context(), filepath.Join(n.Directory, "PG_VERSION")); err != nil || there != want {
			t.Errorf("data of %s: %t %v, want %t", name, there, err, want)
		}
	}
	run := func(destroy bool, want error) {
		t.Helper()
		if err := (&Rollout{Cell: c, DestroyOld: destroy}).Run(t.Context()); !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
	}
	confirm := func() {
		t.Helper()
		if err := (&Rollout{Cell: c}).Confirm(); err != nil {
			t.Fatal(err)
		}
	}
	run(true, ErrUnconfirmed)
	kept("b", true)
	if _, err := (&Rollout{Cell: c}).Plan(t.Context(), io.Discard); err != nil {
		t.Errorf("a plan while b waits to be confirmed: %v", err)
	}
	confirm()
	kept("b", true)
	run(false, ErrUnconfirmed) // b is confirmed, and not destroyed; a waits
	kept("b", true)
	run(true, ErrUnconfirmed)
	kept("a", true)
	confirm()
	run(true, nil)
	kept("a", false)
	kept("b", true)
	if err := (&Rollout{Cell: c, DestroyOld: true}).Abort(t.Context()); !errors.Is(err, ErrState) {
		t.Errorf("abort of what is done: %v", err)
	}
	var out strings.Builder
	if _, err := (&Rollout{Cell: c}).Plan(t.Context(), &out); err != nil || !strings.Contains(out.String(), "nothing is left to do") {
		t.Errorf("a plan of what is done: %v, %s", err, &out)
	}
}
