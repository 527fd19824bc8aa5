package rollout

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// Followers with the same name are told apart by their slots and addresses, where these differ.
func TestExcept(t *testing.T) {
	follower := func(name, host, slot string) unknownFollower {
		return unknownFollower{name: name, host: host, slot: slot}
	}
	node := func(name, slot string, addresses ...string) knownStandby {
		return knownStandby{name: name, slot: slot, addresses: addresses}
	}
	const wr = "walreceiver"
	for _, one := range []struct {
		list  []unknownFollower
		nodes []knownStandby
		left  string
	}{
		{[]unknownFollower{follower(wr, "10.0.0.3", ""), follower(wr, "10.0.0.1", ""), follower(wr, "10.0.0.2", "")}, []knownStandby{node(wr, "", "10.0.0.1"), node(wr, "", "10.0.0.2")}, "[walreceiver (10.0.0.3)]"},
		// The first standby connects from another of its addresses.
		{[]unknownFollower{follower(wr, "10.1.0.1", ""), follower(wr, "10.0.0.2", "")}, []knownStandby{node(wr, "", "10.0.0.1"), node(wr, "", "10.0.0.2")}, "[]"},
		{[]unknownFollower{follower(wr, "10.0.0.1", "x"), follower(wr, "10.0.0.2", "y")}, []knownStandby{node(wr, "y", "10.0.0.1")}, "[walreceiver (10.0.0.1), with the slot x]"},
		{[]unknownFollower{{slot: "y", kept: 1 << 20}, {slot: "z"}, {slot: "y", logical: true}}, []knownStandby{node(wr, "y")}, "[the unused slot z, which keeps 0 B of WAL the logical slot y]"},
		{[]unknownFollower{follower(wr, "10.0.0.1", "x"), follower(wr, "10.0.0.4", "")}, []knownStandby{{name: "b", addresses: []string{"10.0.0.1"}, silent: true}}, "[walreceiver (10.0.0.4)]"},
		{[]unknownFollower{follower("barman", "", "")}, []knownStandby{node(wr, ""), node("", "")}, "[barman (Unix socket)]"},
	} {
		if left := fmt.Sprint(withoutStandbys(one.list, one.nodes)); left != one.left {
			t.Errorf("%v are left, and should %s", left, one.left)
		}
	}
}

// An unused slot may belong to a node that does not answer: the operator is not told to drop it.
func TestSlotOfSilentNode(t *testing.T) {
	nodes := []knownStandby{{name: "b", slot: "b_slot"}, {name: "c", silent: true}}
	list := withoutStandbys([]unknownFollower{{slot: "sub", logical: true}, {slot: "b_slot"}, {slot: "c_slot"}, {slot: "z"}}, nodes)
	f := &findings{node: "a"}
	for _, one := range list {
		neighbours{cell: &Cell{}}.findUnknownFollower(f, &Node{Name: "a"}, one)
	}
	if len(f.list) != 3 || !f.list[0].Problem || f.list[1].Problem || !f.list[2].Problem || !strings.Contains(f.list[1].Text, "the unused slot c_slot, which keeps 0 B of WAL: it may belong to c") {
		t.Errorf("%+v", f.list)
	}
}

// Followers of a standby that is replaced would follow no server, and nodes may be among them. A node's
// unused slot there does no harm.
func TestCascading(t *testing.T) {
	named := func(one unknownFollower) bool { return one.name == "cinch_c" || one.slot == "cinch_c" }
	list := cascading([]unknownFollower{
		{name: "cinch_c", host: "10.0.0.3"},
		{name: "walreceiver", host: "10.0.0.4", slot: "d_slot"},
		{name: "walreceiver", host: "10.0.0.9"},
		{slot: "cinch_c"},
		{slot: "d_slot"},
		{slot: "z"},
	}, []knownStandby{{name: "walreceiver", slot: "d_slot", addresses: []string{"10.0.0.4"}}}, named)
	f := &findings{node: "b"}
	for _, one := range list {
		neighbours{cell: &Cell{}}.findUnknownFollower(f, &Node{Name: "b"}, one)
	}
	var said []string
	for _, one := range f.list {
		said = append(said, one.Text)
	}
	const node, stranger = ": a node of the cell, which would lose its upstream", ": not a node of the cell"
	want := []string{"cinch_c (10.0.0.3)" + node, "with the slot d_slot" + node, "walreceiver (10.0.0.9)" + stranger, "the unused slot z"}
	if len(said) != len(want) {
		t.Fatalf("%q", said)
	}
	for i := range want {
		if !strings.Contains(said[i], want[i]) || !f.list[i].Problem {
			t.Errorf("%q, and not %q", said[i], want[i])
		}
	}
}

// Unknown followers of the primary or of a standby, and unused slots, are reported before anything is made, unless the
// cell's file allows them to stay. Standbys that are nodes are known, whatever name and slot they have.
func TestStrangers(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	c := newCell(t, "b")
	a, b := &c.Nodes[0], &c.Nodes[1]
	mustExec(t, a, "SELECT pg_create_physical_replication_slot(name, true) FROM unnest(ARRAY['own', 'archive', 'forgotten']) AS name")
	mustExec(t, b, "ALTER SYSTEM SET primary_conninfo = 'host=127.0.0.1 port="+portOf(t, a)+" user=postgres'")
	mustExec(t, b, "ALTER SYSTEM SET primary_slot_name = 'own'")
	mustExec(t, b, "SELECT pg_reload_conf()")
	follows := func(n *Node, name, condition string) {
		t.Helper()
		testenv.Eventually(t, name+" follows "+n.Name, func() bool {
			is, err := value[bool](t.Context(), n, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE application_name = $1 AND "+condition+")", name)
			return err == nil && is
		})
	}
	follows(a, "walreceiver", "state = 'streaming' AND pid IN (SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'own')")
	mustExec(t, a, "SELECT pg_drop_replication_slot('cinch_b')")
	receive := func(n *Node, name string, args ...string) {
		t.Helper()
		directory := filepath.Join(filepath.Dir(n.Directory), name)
		if _, err := n.command(t.Context(), "mkdir", directory); err != nil {
			t.Fatal(err)
		}
		args = append([]string{"-D", directory, "-d", "host=127.0.0.1 port=" + portOf(t, n) + " user=postgres application_name=" + name}, args...)
		command := remoteCommand(n.Run, append([]string{n.program("pg_receivewal")}, args...)...)
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
		follows(n, name, "state = 'streaming'")
	}
	receive(a, "tape", "--slot", "archive")
	receive(b, "cascade")
	plan := func() (problems int, said string) {
		var out strings.Builder
		problems, err := (&Rollout{Cell: c}).Plan(t.Context(), &out)
		if err != nil {
			t.Error(err)
		}
		return problems, out.String()
	}
	problems, said := plan() // a's followers are reported for both nodes, b's for b only
	for _, want := range []string{"a serves tape (127.0.0.1), with the slot archive: not a node", "a serves the unused slot forgotten, which keeps ", "b serves cascade (127.0.0.1): not a node", "left_behind: [archive]"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if problems != 5 || strings.Contains(said, "slot own") || t.Failed() {
		t.Errorf("%d problems:\n%s", problems, said)
	}
	mustSay(t, (&Rollout{Cell: c}).Run(t.Context()), ErrCheck, "the unused slot forgotten")
	c.LeftBehind = []string{"tape", "forgotten", "cascade"}
	if problems, said = plan(); problems != 0 || !strings.Contains(said, "b serves cascade (127.0.0.1): it is left behind when b is stopped") {
		t.Errorf("%d problems:\n%s", problems, said)
	}
	mustExec(t, a, "SELECT pg_drop_replication_slot('forgotten')")
	if err := (&Rollout{Cell: c, Yes: true}).Run(t.Context()); err != nil {
		t.Error(err)
	}
}
