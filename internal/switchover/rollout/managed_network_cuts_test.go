package rollout

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// managedCuts returns the cuts for a Patroni cell: from the copy on, since Patroni does nothing before.
func managedCuts() (list []aCut) {
	for i, step := range []Step{StepStart, StepHold, StepFence, StepPromote, StepMove, StepFollow} {
		for j, l := range links {
			list = append(list, aCut{step, l, (i+j)%2 == 1})
		}
	}
	return list
}

// With Patroni a cut link may make it choose another leader by itself, or demote the old one. There are never
// two primaries, and nothing is lost or stored twice. Patroni's store is on the gateway's host.
func TestPatroniCuts(t *testing.T) {
	if !*cuts {
		t.Skip("with -rollout.cuts")
	}
	var mu sync.Mutex
	rows := map[string]string{}
	t.Run("cut", func(t *testing.T) {
		for _, c := range managedCuts() {
			t.Run(strings.ReplaceAll(string(c.step)+"/"+c.link.String(), " ", "_"), func(t *testing.T) {
				t.Parallel()
				row := c.run(t, newManagedWorld(t))
				mu.Lock()
				defer mu.Unlock()
				rows[string(c.step)+c.link.String()] = row
			})
		}
	})
	t.Logf("%-10s %-14s %-26s %9s %9s %5s %6s", "step", "link cut", "then", "primaries", "committed", "lost", "twice")
	for _, c := range managedCuts() {
		t.Logf("%-10s %-14s %s", c.step, c.link, rows[string(c.step)+c.link.String()])
	}
}

// newManagedWorld returns a world with a Patroni leader on a separate host.
func newManagedWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, net: newNetwork(t)}
	p := testenv.NewPatroniOn(t, addr(onGateway), []string{"ip", "netns", "exec", w.net.prefix + hostNames[onGateway]})
	w.dir = p.Dir
	w.file = filepath.Join(t.TempDir(), "cell.yaml")
	old := w.member(p, &w.old, "a", onOld, "5432")
	old["replacement"] = w.member(p, &w.made, "a2", onNew, "5433")
	text, err := json.Marshal(map[string]any{
		"cell": "orders", "gateway": map[string]any{"admin": addr(onGateway) + ":9470", "token_file": w.token(), "unmovable": "end"},
		"gates": w.times(), "patroni": map[string]any{"user": "patroni", "password_file": passwordFile(t, "secret")}, "nodes": []any{old},
	})
	if err = errors.Join(err, os.WriteFile(w.file, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the leader takes writes", func() bool {
		standby, err := w.old.inRecovery(t.Context())
		return err == nil && !standby
	})
	mustExec(t, &w.old, accounts)
	mustExec(t, &w.old, "ALTER TABLE ledger DROP CONSTRAINT ledger_pkey")
	w.startGateway()
	return w
}

// member makes a member on a host, as the cell's file describes it. The old one is started.
func (w *world) member(p *testenv.Patroni, n *Node, name string, host int, port string) map[string]any {
	t := w.t
	m := p.MemberAt(t, name, net.JoinHostPort(addr(host), port), addr(host)+":8008")
	*n = Node{Name: name, Directory: m.Data, Run: p.As, Bin: p.Bin, URL: fmt.Sprintf("postgres://postgres@/postgres?host=%s&port=%s", p.Dir, port)}
	run := w.shell(host, p.As)
	if host == onOld {
		p.WriteConfig(t, m, "")
		start := append(p.As[:len(p.As):len(p.As)], m.Start...)
		if out, err := w.net.command(host, start...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return map[string]any{
		"name": name, "url": "postgres://postgres@" + m.Addr + "/postgres", "directory": m.Data, "bin": p.Bin, "run": run, "start": m.Start, "stop": m.Stop,
		"patroni": map[string]string{"api": "http://" + m.API, "config": m.Config},
	}
}
