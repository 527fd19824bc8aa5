package rollout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/switchover/rollout/patroni"
	"github.com/cinch-layer/cinch/test/testenv"
)

// patroniCell makes a Patroni cell: a leader "a" and standbys, with replacements that do not exist yet.
type patroniCell struct {
	*Cell
	*testenv.Patroni
	members map[string]*testenv.PatroniMember
}

func newPatroniCell(t *testing.T, more string, standbys ...string) *patroniCell {
	t.Helper()
	return patroniCellOf(t, testenv.NewPatroni(t), patroni.Access{User: "patroni", PasswordFile: passwordFile(t, "secret")}, more, standbys...)
}

func passwordFile(t *testing.T, password string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(name, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func patroniCellOf(t *testing.T, of *testenv.Patroni, access patroni.Access, more string, standbys ...string) *patroniCell {
	t.Helper()
	p := &patroniCell{Patroni: of, members: map[string]*testenv.PatroniMember{}}
	p.Cell = &Cell{
		Name: "orders", State: filepath.Join(t.TempDir(), "state.json"), Hooks: Hooks{Hold: []string{"true"}, Move: []string{"true"}, Release: []string{"true"}},
		Patroni: &access,
	}
	for _, name := range append([]string{"a"}, standbys...) {
		n, made := p.node(t, name), p.node(t, name+"2")
		n.Replacement = &made
		p.Nodes = append(p.Nodes, n)
		p.WriteConfig(t, p.members[name], more)
		p.Launch(t, p.members[name])
	}
	p.Gates.CatchUp, p.Gates.Sample = config.Duration(time.Minute), 1<<20
	p.Gates.fill()
	if err := p.validate(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *patroniCell) node(t *testing.T, name string) Node {
	m := p.Member(t, name)
	p.members[name] = m
	scheme := "http://"
	if p.Cell.Patroni.CA != "" {
		scheme = "https://"
	}
	return Node{
		Name: name, URL: "postgres://postgres@" + m.Addr + "/postgres", Directory: m.Data, Run: p.As, Bin: p.Bin, Start: m.Start, Stop: m.Stop,
		Patroni: &Agent{API: scheme + m.API, Config: m.Config},
	}
}

func telling(t *testing.T) func(node, text string) {
	return func(node, text string) { t.Log(time.Now().Format("05.000"), node, text) }
}

// mustHold fails unless all committed transfers are stored once. Up to unknown more may be stored without a
// confirmation for the client.
func mustHold(t *testing.T, n *Node, committed, unknown int) {
	t.Helper()
	var now, total int
	if _, err := fmt.Sscanf(ledger(t, n), "%d transfers, %d in accounts", &now, &total); err != nil || now < committed || now > committed+unknown || total != 2000 {
		t.Errorf("%d transfers, %d were committed, %d in accounts: %v", now, committed, total, err)
	}
}

// A Patroni cell is replaced while clients write. Patroni makes the copies and changes the leader; nothing is
// lost or stored twice.
func TestPatroni(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	for name, mode := range map[string]string{"asynchronous": "", "synchronous": "synchronous_mode: true\n    synchronous_node_count: 2", "quorum": "synchronous_mode: quorum"} {
		t.Run(name, func(t *testing.T) { replaced(t, mode) })
	}
}

func replaced(t *testing.T, mode string) {
	p := newPatroniCell(t, mode, "b")
	mustExec(t, &p.Nodes[0], accounts)
	g := &gate{url: p.Nodes[0].URL}
	stop := g.transfers(t, 4, false)
	r := &Rollout{Cell: p.Cell, clients: g, Yes: true, Tell: telling(t)}
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	committed := stop()
	if got := onePrimary(t, p.Cell); got != "a2" {
		t.Fatalf("the primary is %q", got)
	}
	mustHold(t, p.Nodes[0].Replacement, committed, 0)
	c, err := r.strategy().(managed).cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var now []string
	for _, m := range c.Members {
		if m.State == patroni.Stopped { // shown until the leader lock expires
			continue
		}
		now = append(now, m.Name+" "+strings.TrimPrefix(strings.TrimPrefix(m.Role, "sync_"), "quorum_"))
		if m.Tags["nofailover"] == true {
			t.Errorf("%s must not become the leader", m.Name)
		}
	}
	if slices.Sort(now); strings.Join(now, ", ") != "a2 leader, b2 replica" && strings.Join(now, ", ") != "a2 leader, b2 standby" {
		t.Errorf("members: %q", now)
	}
}

// pgbench and a counting client go through cinch serve --postgres, keep their connections, and see no error
// when Patroni changes the leader.
func TestPatroniThroughGateway(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	p := newPatroniCell(t, "")
	a := &p.Nodes[0]
	mustExec(t, a, accounts)
	gateway := p.through(t, a)
	_, port, err := net.SplitHostPort(gateway)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-h", "127.0.0.1", "-p", port, "-U", "postgres", "postgres"}
	pgbench := testenv.Program(t, "pgbench")
	testenv.Run(t, t.TempDir(), pgbench, append([]string{"-i", "-q"}, args...)...)
	var said bytes.Buffer
	bench := exec.CommandContext(t.Context(), pgbench, append([]string{"-n", "-M", "prepared", "-c", "4", "-R", "40", "-T", "3600"}, args...)...)
	bench.Stdout, bench.Stderr = &said, &said
	if err := bench.Start(); err != nil {
		t.Fatal(err)
	}
	stop := counted(t, gateway)
	if err := (&Rollout{Cell: p.Cell, Yes: true, Tell: telling(t)}).Run(t.Context()); err != nil {
		t.Error(err)
	}
	committed := stop()
	_ = bench.Process.Kill()
	if _ = bench.Wait(); strings.Contains(said.String(), "error") || strings.Contains(said.String(), "aborted") {
		t.Errorf("pgbench:\n%s", &said)
	}
	if got := onePrimary(t, p.Cell); got != "a2" {
		t.Fatalf("the primary is %q", got)
	}
	mustHold(t, a.Replacement, committed, 0)
	if sums, err := value[bool](t.Context(), a.Replacement, `SELECT (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history)
		AND (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history)`); err != nil || !sums {
		t.Errorf("pgbench's sums are equal: %t %v", sums, err)
	}
}

// through starts a gateway in front of a node, and makes the cell's clients go through it.
func (p *patroniCell) through(t *testing.T, n *Node) string {
	t.Helper()
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("a token of some length\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	gateway := testenv.Gateway(t, testenv.GatewayConfig{
		Protocol: "postgres", Upstream: n.URL + "?state_file=" + filepath.Join(dir, "gateway.json"), Args: []string{"--admin-token-file", token},
	})
	p.Hooks, p.Gateway = Hooks{}, Gateway{Admin: gateway.Admin, TokenFile: token}
	return gateway.Addr
}

// counted starts a client that writes one row after the other until it is stopped; stopping it returns how
// many were committed.
func counted(t *testing.T, gateway string) (stop func() int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), "postgres://postgres@"+gateway+"/postgres?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		defer conn.Close(context.Background())
		number := 0
		for ; ctx.Err() == nil; number++ {
			if _, err := conn.Exec(context.Background(), "INSERT INTO ledger VALUES (0, $1)", number); err != nil {
				t.Error(err)
				break
			}
		}
		ended <- number
	}()
	return func() int {
		cancel()
		return <-ended
	}
}

// A roll-out that was killed at any step of the leader is resumed, or aborted where that is possible.
func TestPatroniKilled(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	for _, behind := range []bool{false, true} {
		for _, step := range primarySteps {
			for _, abort := range []bool{false, true} {
				t.Run(strings.ReplaceAll(fmt.Sprintf("%s/behind=%t/abort=%t", step, behind, abort), " ", "_"), func(t *testing.T) {
					killedAndResumed(t, newPatroniCell(t, "").Cell, step, behind, abort)
				})
			}
		}
	}
}

// When Patroni changes the leader in the middle of a roll-out, clients follow it, and the roll-out continues.
func TestPatroniFailsOver(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	p := newPatroniCell(t, "", "b")
	mustExec(t, &p.Nodes[0], accounts)
	g := &gate{url: p.Nodes[0].URL}
	stop := g.transfers(t, 2, true)
	r := &Rollout{Cell: p.Cell, clients: g, Yes: true, Tell: telling(t)}
	r.dies = func(s Step, done bool) bool {
		if s == StepGates && done && r.state.At == 0 { // b is about to be replaced, and becomes the leader
			m := r.strategy().(managed)
			if err := m.api.Switchover(context.Background(), m.oldNode.Patroni.API, "a", "b"); err != nil {
				t.Error(err)
			}
		}
		return false
	}
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	committed := stop()
	if got := onePrimary(t, p.Cell); got != "b2" {
		t.Fatalf("the primary is %q", got)
	}
	mustHold(t, p.Nodes[1].Replacement, committed, 2)
}

// A switch-over that Patroni refuses leaves the cell as it was, with clients at the old leader.
func TestPatroniRefuses(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	p := newPatroniCell(t, "")
	mustExec(t, &p.Nodes[0], accounts)
	g := &gate{url: p.Nodes[0].URL}
	stop := g.transfers(t, 2, false)
	r := &Rollout{Cell: p.Cell, clients: g, Yes: true, Tell: telling(t)}
	once := false
	r.dies = func(s Step, done bool) bool {
		if s == StepPromote && !done && !once { // an operator forbids the new member to become the leader
			once = true
			if err := r.strategy().(managed).tag(context.Background(), r.node().Replacement, standbyTags); err != nil {
				t.Error(err)
			}
		}
		return false
	}
	err := r.Run(t.Context())
	if no := new(patroni.Refusal); !errors.Is(err, errNotPromoted) || !errors.As(err, &no) || r.state.Step != StepHold || g.held {
		t.Errorf("%v, at %s, clients held: %t", err, r.state.Step, g.held)
	}
	if got := onePrimary(t, p.Cell); got != "a" {
		t.Errorf("the primary is %q", got)
	}
	if err := (&Rollout{Cell: p.Cell, clients: g, Yes: true}).Run(t.Context()); err != nil {
		t.Error(err)
	}
	committed := stop()
	if got := onePrimary(t, p.Cell); got != "a2" {
		t.Errorf("the primary is %q", got)
	}
	mustHold(t, p.Nodes[0].Replacement, committed, 0)
}

// A server that is killed together with its Patroni at a step of the leader, and restarted, costs no more
// than another try.
func TestPatroniServersKilled(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	for _, step := range []Step{StepCatchUp, StepHold, StepFence, StepPromote, StepMove, StepFollow} {
		for _, old := range []bool{true, false} {
			t.Run(strings.ReplaceAll(fmt.Sprintf("%s/old=%t", step, old), " ", "_"), func(t *testing.T) { memberKilled(t, step, old) })
		}
	}
}

func memberKilled(t *testing.T, step Step, old bool) {
	mode := ""
	// Clients were held a moment ago: only a synchronous standby is sure to have all that they wrote then.
	if step == StepFence && old {
		mode = "synchronous_mode: true"
	}
	p := newPatroniCell(t, mode)
	mustExec(t, &p.Nodes[0], accounts)
	g := &gate{url: p.Nodes[0].URL}
	stop := g.transfers(t, 2, true)
	victim := p.Nodes[0].Replacement
	if old {
		victim = &p.Nodes[0]
	}
	var tries []string
	for once := false; len(tries) < 6; {
		r := &Rollout{Cell: p.Cell, clients: g, Yes: true, Tell: telling(t)}
		r.dies = func(s Step, done bool) bool {
			if s == step && !done && !once {
				once = true
				p.members[victim.Name].Kill()
			}
			return false
		}
		err := r.Run(t.Context())
		onePrimaryAtMost(t, p.Cell)
		if err == nil {
			break
		}
		tries = append(tries, err.Error())
		if running, _ := victim.running(t.Context()); !running && once {
			_ = victim.start(t.Context()) // as a supervisor that does not know of the roll-out
		}
	}
	t.Logf("%d tries failed: %q", len(tries), tries)
	committed := stop()
	if got := onePrimary(t, p.Cell); got != "a2" {
		t.Fatalf("the primary is %q", got)
	}
	mustHold(t, p.Nodes[0].Replacement, committed, 2)
}

// A leader that has died, which Patroni's store does not know yet, is not replaced by a new member that lacks
// a commit: the new one still must not become the leader.
func TestPatroniLeaderDead(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	p := newPatroniCell(t, "")
	a := &p.Nodes[0]
	mustExec(t, a, accounts)
	g := &gate{url: a.URL}
	r := &Rollout{Cell: p.Cell, clients: g, Yes: true, Tell: telling(t)}
	r.dies = at(StepHold, false, func() {
		sender, err := value[int](t.Context(), a, "SELECT pid FROM pg_stat_replication WHERE application_name = 'a2'")
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(sender, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		err = g.transfer(0, 0)
		p.members["a"].Kill()
		if err := errors.Join(err, syscall.Kill(sender, syscall.SIGKILL)); err != nil {
			t.Error(err)
		}
	})
	mustSay(t, r.Run(t.Context()), nil, "node a, hold")
	if is := primaries(t, p.Cell); len(is) > 0 {
		t.Errorf("primaries: %v", is)
	}
	if err := a.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := (&Rollout{Cell: p.Cell, clients: g, Yes: true, Tell: telling(t)}).Run(t.Context()); err != nil {
		t.Error(err)
	}
	mustHold(t, a.Replacement, 1, 0)
}

// Patroni's store names a leader that has died until its lock expires, so the new member is admitted only if
// the old leader itself answers.
func TestPatroniLeaderAnswersItself(t *testing.T) {
	var asked []string
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		_, _ = io.WriteString(w, `{"leader": "a"}`)
	}))
	defer store.Close()
	api, err := patroni.NewClient(patroni.Access{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close() // the leader's server is down
	agent := &Agent{API: store.URL, Config: filepath.Join(t.TempDir(), "none")}
	a := &Node{Name: "a", URL: "postgres://postgres@" + l.Addr().String() + "/postgres?sslmode=disable", Patroni: agent}
	m := managed{task: &task{cell: &Cell{}, oldNode: a, newNode: &Node{Name: "a2", Patroni: agent}, progress: &Progress{}}, api: api}
	if err := m.admit(t.Context()); err == nil || !strings.Contains(err.Error(), "node a: ") {
		t.Errorf("a leader that is gone: %v", err)
	}
	if !slices.Equal(asked, []string{"/config"}) {
		t.Errorf("Patroni was asked for %q", asked)
	}
}

// The roll-out works with a REST API with TLS that requires a client certificate and a password. A wrong one of each is
// found before anything is made.
func TestPatroniSecure(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	of := testenv.NewPatroni(t)
	authority := testenv.NewAuthority(t)
	cert := authority.Issue(t, "member")
	file := func(from string) string {
		name := filepath.Join(of.Dir, filepath.Base(from))
		testenv.Run(t, of.Dir, "cp", from, name)
		testenv.Run(t, of.Dir, "chown", "--reference="+of.Dir, name)
		return name
	}
	pair, ca := "\n  certfile: "+file(cert.Cert)+"\n  keyfile: "+file(cert.Key), file(authority.File)
	// Members ask each other, too.
	of.API = pair + "\n  cafile: " + ca + "\n  verify_client: required\nctl:" + pair + "\n  cacert: " + ca
	good := patroni.Access{User: "patroni", PasswordFile: passwordFile(t, "secret"), CA: authority.File, Cert: cert.Cert, Key: cert.Key}
	p := patroniCellOf(t, of, good, "")
	for says, access := range map[string]patroni.Access{
		"certificate required": {User: good.User, PasswordFile: good.PasswordFile, CA: good.CA},
		"unknown authority":    {User: good.User, PasswordFile: good.PasswordFile, Cert: good.Cert, Key: good.Key},
		"Patroni answered 401": {User: good.User, PasswordFile: passwordFile(t, "another"), CA: good.CA, Cert: good.Cert, Key: good.Key},
	} {
		c := *p.Cell
		c.Patroni = &access
		problems, err := (&Rollout{Cell: &c, clients: &gate{}}).Plan(t.Context(), new(strings.Builder))
		runs := (&Rollout{Cell: &c, clients: &gate{}}).Run(t.Context())
		if runs == nil || !strings.Contains(runs.Error(), says) || err == nil && problems == 0 {
			t.Errorf("%s: %d problems, %v; %v", says, problems, err, runs)
		}
	}
	mustExec(t, &p.Nodes[0], accounts)
	g := &gate{url: p.Nodes[0].URL}
	stop := g.transfers(t, 2, false)
	if err := (&Rollout{Cell: p.Cell, clients: g, Yes: true, Tell: telling(t)}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	committed := stop()
	if got := onePrimary(t, p.Cell); got != "a2" {
		t.Fatalf("the primary is %q", got)
	}
	mustHold(t, p.Nodes[0].Replacement, committed, 0)
}
