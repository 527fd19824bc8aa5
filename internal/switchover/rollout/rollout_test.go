package rollout

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/test/testenv"
)

// newCell makes a primary "a" and standbys, with replacements that do not exist yet.
func newCell(t *testing.T, standbys ...string) *Cell {
	t.Helper()
	return newCellOf(t, testenv.PostgresBin(t), standbys...)
}

// newCellOf makes a cell with the programs in a directory.
func newCellOf(t *testing.T, bin string, standbys ...string) *Cell {
	t.Helper()
	dir, as := testenv.PostgresDir(t)
	c := &Cell{Name: "orders", State: filepath.Join(t.TempDir(), "state.json"), Hooks: Hooks{Hold: []string{"true"}, Move: []string{"true"}, Release: []string{"true"}}}
	for _, name := range append([]string{"a"}, standbys...) {
		n, made := newNode(t, dir, bin, as, name), newNode(t, dir, bin, as, name+"2")
		n.Replacement = &made
		c.Nodes = append(c.Nodes, n)
	}
	// Tests wait that long for the lag of a node whose server they have killed.
	c.Gates.CatchUp = config.Duration(20 * time.Second)
	c.Gates.fill()
	if err := c.validate(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, n := range c.Nodes {
			for _, one := range []*Node{&n, n.Replacement} {
				if running, _ := one.running(context.Background()); running {
					_, _ = one.command(context.Background(), one.program("pg_ctl"), "stop", "-D", one.Directory, "-m", "immediate")
				}
			}
		}
	})
	a := &c.Nodes[0]
	initialize(t, a)
	conf := fmt.Sprintf("port = %s\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = '%s'\nfsync = off\nmax_connections = 100\n", portOf(t, a), dir)
	if _, err := a.command(t.Context(), "sh", "-c", `printf %s "$1" >> "$2"`, "sh", conf, filepath.Join(a.Directory, "postgresql.conf")); err != nil {
		t.Fatal(err)
	}
	if err := a.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range c.Nodes[1:] {
		n := &c.Nodes[i+1]
		if err := a.makeSlot(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		mustRun(t, n, "pg_basebackup", c.backupArguments(n, a)...)
		if err := errors.Join(c.configure(t.Context(), n, a), n.start(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// initialize makes a node's directory.
func initialize(t *testing.T, n *Node) {
	t.Helper()
	testenv.InitPostgres(t, n.Bin, filepath.Dir(n.Directory), n.Run, n.Directory)
}

func newNode(t *testing.T, dir, bin string, as []string, name string) Node {
	t.Helper()
	port := strconv.Itoa(testenv.FreePort(t))
	return Node{
		Name: name, URL: "postgres://postgres@" + net.JoinHostPort("127.0.0.1", port) + "/postgres", Directory: filepath.Join(dir, name),
		Run: as, Bin: bin, Options: map[string]string{"port": port},
	}
}

func portOf(t *testing.T, n *Node) string {
	t.Helper()
	_, port, _ := n.location()
	return port
}

func mustRun(t *testing.T, n *Node, program string, args ...string) {
	t.Helper()
	if _, err := n.command(t.Context(), n.program(program), args...); err != nil {
		t.Fatal(err)
	}
}

// gate simulates a gateway: each client takes the address from it for one transaction at a time.
type gate struct {
	mu   sync.RWMutex // held for reading during a transaction
	held bool
	url  string
}

func (g *gate) Reach(context.Context, *Node) (string, error) { return "", nil }

func (g *gate) Hold(context.Context, time.Duration) error {
	if !g.held {
		g.mu.Lock()
		g.held = true
	}
	return nil
}

func (g *gate) Move(_ context.Context, to *Node) error {
	g.url = to.URL
	return nil
}

func (g *gate) Release(context.Context) error {
	if g.held {
		g.held = false
		g.mu.Unlock()
	}
	return nil
}

// transfers moves money between accounts until it is stopped; stopping it returns how many transfers were
// committed. If servers are not killed any error fails the test.
func (g *gate) transfers(t *testing.T, n int, killed bool) (stop func() int) {
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	done := make([]int, n)
	for i := range n {
		clients.Go(func() {
			for ctx.Err() == nil {
				err := g.transfer(i, done[i])
				var failed *pgconn.PgError
				switch {
				// A unique violation: it had been committed when the connection broke.
				case err == nil, killed && errors.As(err, &failed) && failed.Code == "23505":
					done[i]++
				case errors.As(err, &failed) && failed.Code == "40P01": // the clients deadlock
				case killed:
				default:
					t.Errorf("client %d: %v", i, err)
					return
				}
				// Connecting for each transfer takes CPU time from the roll-out.
				_ = pauseFor(ctx, pollPause)
			}
		})
	}
	return func() int {
		cancel()
		clients.Wait()
		sum := 0
		for _, d := range done {
			sum += d
		}
		return sum
	}
}

// transfer is one transaction. Its outcome is unknown if the connection breaks, so the count that stop
// returns may be one too low for each client.
func (g *gate) transfer(client, number int) error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, g.url)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	_, err = c.PgConn().Exec(ctx, fmt.Sprintf(`BEGIN; INSERT INTO ledger VALUES (%d, %d); UPDATE account SET balance = balance - 1 WHERE id = %d;
		UPDATE account SET balance = balance + 1 WHERE id = %d; COMMIT`, client, number, client, (client+number)%20)).ReadAll()
	return err
}

const accounts = "CREATE TABLE account (id int PRIMARY KEY, balance int); INSERT INTO account SELECT i, 100 FROM generate_series(0, 19) i; CREATE TABLE ledger (client int, number int, PRIMARY KEY (client, number)); CREATE EXTENSION amcheck"

func mustExec(t *testing.T, n *Node, text string) {
	t.Helper()
	err := n.ask(t.Context(), func(c *pgx.Conn) error {
		_, err := c.PgConn().Exec(t.Context(), text).ReadAll()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A primary and a standby are replaced while clients write. No commit is lost or stored twice, and the old
// nodes are kept. The example in examples/rollout has two standbys.
func TestRun(t *testing.T) {
	t.Parallel()
	c := newCell(t, "b")
	mustExec(t, &c.Nodes[0], accounts)
	mustExec(t, &c.Nodes[0], "CREATE TABLE odd (t text, i int); INSERT INTO odd VALUES (NULL, 1); CREATE MATERIALIZED VIEW later AS SELECT 1 WITH NO DATA")
	const prefix = `%m 'x' \p\`
	c.Nodes[0].Replacement.Options["log_line_prefix"] = prefix
	g := &gate{url: c.Nodes[0].URL}
	stop := g.transfers(t, 3, false)
	r := &Rollout{Cell: c, clients: g, Yes: true, Tell: func(node, text string) { t.Log(node, text) }}
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	committed := stop()
	primary := c.Nodes[0].Replacement
	if got := ledger(t, primary); got != fmt.Sprintf("%d transfers, 2000 in accounts", committed) {
		t.Errorf("%s, and %d were committed", got, committed)
	}
	if is, err := value[string](t.Context(), primary, "SHOW log_line_prefix"); is != prefix || err != nil {
		t.Errorf("log_line_prefix is %q %v", is, err)
	}
	if s := r.state; !s.Done || s.Order[1] != "a" || s.Nodes["a"].Pause == 0 {
		t.Errorf("%+v", s)
	}
	for _, n := range c.Nodes {
		running, err := n.running(t.Context())
		if err != nil || running {
			t.Errorf("%s: %t %v", n.Name, running, err)
		}
		if there, err := n.exists(t.Context(), filepath.Join(n.Directory, "PG_VERSION")); !there || err != nil {
			t.Errorf("%s: its data: %t %v", n.Name, there, err)
		}
	}
	follower := c.node("b").Replacement
	testenv.Eventually(t, "b2 follows", func() bool { return ledger(t, follower) == ledger(t, primary) })
	if slots, err := value[string](t.Context(), primary, "SELECT string_agg(slot_name, ' ' ORDER BY 1) FROM pg_replication_slots"); err != nil || slots != "cinch_b2" {
		t.Errorf("slots of the new primary: %q %v", slots, err)
	}
}

func ledger(t *testing.T, n *Node) string {
	t.Helper()
	s, err := value[string](t.Context(), n, "SELECT (SELECT count(*) FROM ledger) || ' transfers, ' || sum(balance) || ' in accounts' FROM account")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func tried() []Step {
	if testenv.IsFull() {
		return primarySteps
	}
	return []Step{StepFence}
}

var errKilled = errors.New("killed")

// killedAt runs a roll-out that dies at a step: when it has recorded the step or, if behind is true, when it has
// taken it.
func killedAt(t *testing.T, c *Cell, g *gate, step Step, behind bool) {
	t.Helper()
	r := &Rollout{Cell: c, clients: g, Yes: true}
	ctx, cancel := context.WithCancelCause(t.Context())
	r.dies = func(s Step, done bool) bool {
		if s != step || done != behind || !r.state.primaryTurn() {
			return false
		}
		cancel(errKilled)
		return true
	}
	if err := r.Run(ctx); !errors.Is(err, errKilled) {
		t.Fatalf("%s, behind: %t: %v", step, behind, err)
	}
}

// onePrimary fails unless exactly one server of a cell takes writes.
func onePrimary(t *testing.T, c *Cell) string {
	t.Helper()
	primaries := primaries(t, c)
	if len(primaries) != 1 {
		t.Errorf("primaries: %v", primaries)
		return ""
	}
	return primaries[0]
}

func onePrimaryAtMost(t *testing.T, c *Cell) {
	t.Helper()
	if primaries := primaries(t, c); len(primaries) > 1 {
		t.Errorf("primaries: %v", primaries)
	}
}

func primaries(t *testing.T, c *Cell) []string {
	t.Helper()
	var primaries []string
	for _, n := range c.Nodes {
		for _, one := range []*Node{&n, n.Replacement} {
			if running, _ := one.running(t.Context()); !running {
				continue
			}
			if standby, err := one.inRecovery(context.WithoutCancel(t.Context())); err == nil && !standby {
				primaries = append(primaries, one.Name)
			}
		}
	}
	return primaries
}

// A roll-out that was killed at any step of the primary is resumed, or aborted where that is possible. There
// are never two primaries, and nothing is lost.
func TestKilled(t *testing.T) {
	for _, behind := range []bool{false, true} {
		for _, step := range tried() {
			for _, abort := range []bool{false, true} {
				t.Run(strings.ReplaceAll(fmt.Sprintf("%s/behind=%t/abort=%t", step, behind, abort), " ", "_"), func(t *testing.T) {
					if behind || abort {
						testenv.Full(t)
					}
					t.Parallel()
					killedAndResumed(t, newCell(t), step, behind, abort)
				})
			}
		}
	}
}

func killedAndResumed(t *testing.T, c *Cell, step Step, behind, abort bool) {
	t.Helper()
	mustExec(t, &c.Nodes[0], accounts)
	g := &gate{url: c.Nodes[0].URL}
	stop := g.transfers(t, 2, false)
	killedAt(t, c, g, step, behind)
	r := &Rollout{Cell: c, clients: g, Yes: true}
	ahead := slices.Index(primarySteps, step) > slices.Index(primarySteps, StepPromote) || step == StepPromote && behind
	want := "a2"
	if abort {
		err := r.Abort(t.Context())
		if ahead != errors.Is(err, ErrNoWayBack) && !(step == StepDestroy && behind) {
			t.Errorf("abort: %v", err)
		}
		if !ahead {
			want = "a"
		}
	}
	if !abort || ahead {
		if err := (&Rollout{Cell: c, clients: g, Yes: true}).Run(t.Context()); err != nil {
			// Clients may be held, so the test does not wait for them.
			t.Fatal(err)
		}
	}
	committed := stop()
	if got := onePrimary(t, c); got != want {
		t.Errorf("the primary is %s and should be %s", got, want)
	}
	primary := &c.Nodes[0]
	if want == "a2" {
		primary = primary.Replacement
	}
	if got := ledger(t, primary); got != fmt.Sprintf("%d transfers, 2000 in accounts", committed) {
		t.Errorf("%s, and %d were committed", got, committed)
	}
}

// A server that is killed at any step of the primary, and restarted unchanged by its supervisor, costs no
// more than another try: there are never two primaries, and nothing is lost.
func TestServersKilled(t *testing.T) {
	testenv.Full(t)
	for _, step := range tried() {
		for _, old := range []bool{true, false} {
			t.Run(strings.ReplaceAll(fmt.Sprintf("%s/old=%t", step, old), " ", "_"), func(t *testing.T) {
				t.Parallel()
				serverKilled(t, step, old)
			})
		}
	}
}

func serverKilled(t *testing.T, step Step, old bool) {
	c := newCell(t)
	mustExec(t, &c.Nodes[0], accounts)
	g := &gate{url: c.Nodes[0].URL}
	stop := g.transfers(t, 2, true)
	victim := c.Nodes[0].Replacement
	if old {
		victim = &c.Nodes[0]
	}
	var tries []string
	for once := false; len(tries) < 6; {
		r := &Rollout{Cell: c, clients: g, Yes: true}
		r.dies = func(s Step, done bool) bool {
			if s == step && !done && !once {
				once = true
				kill9(t, victim)
			}
			return false
		}
		err := r.Run(t.Context())
		onePrimaryAtMost(t, c)
		if running, _ := victim.running(t.Context()); !running && once {
			_ = victim.start(t.Context()) // as a supervisor that does not know of the roll-out
		}
		onePrimaryAtMost(t, c)
		if err == nil {
			break
		}
		tries = append(tries, err.Error())
	}
	t.Logf("%d tries failed: %q", len(tries), tries)
	committed := stop()
	if got := onePrimary(t, c); got != "a2" {
		t.Fatalf("the primary is %q", got)
	}
	var now, total int
	if _, err := fmt.Sscanf(ledger(t, c.Nodes[0].Replacement), "%d transfers, %d in accounts", &now, &total); err != nil || now < committed || now > committed+2 || total != 2000 {
		t.Errorf("%d transfers, %d were committed, %d in accounts: %v", now, committed, total, err)
	}
}

// kill9 kills a node's server if it runs.
func kill9(t *testing.T, n *Node) {
	out, err := n.command(t.Context(), "sh", "-c", `head -n 1 "$1"`, "sh", filepath.Join(n.Directory, "postmaster.pid"))
	pid, convErr := strconv.Atoi(strings.TrimSpace(out))
	if err != nil || convErr != nil {
		return
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	testenv.Eventually(t, "the server has died", func() bool {
		running, err := n.running(t.Context())
		return err == nil && !running
	})
}

// A standby whose lag does not shrink closes the gate.
func TestLag(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	c := newCell(t)
	c.Gates.CatchUp = config.Duration(2 * time.Second)
	mustExec(t, &c.Nodes[0], "CREATE TABLE t AS SELECT i, repeat('v', 100) FROM generate_series(1, 10) i")
	r := &Rollout{Cell: c, clients: &gate{}, Yes: true}
	r.dies = func(s Step, done bool) bool {
		if s == StepStart && done {
			mustExec(t, c.Nodes[0].Replacement, "SELECT pg_wal_replay_pause()")
			mustExec(t, &c.Nodes[0], "INSERT INTO t SELECT i, repeat('v', 100) FROM generate_series(1, 20000) i")
		}
		return false
	}
	if err := r.Run(t.Context()); !errors.Is(err, ErrGate) || !strings.Contains(err.Error(), "behind") {
		t.Error(err)
	}
}

// Problems are reported before anything is made.
func TestCheck(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	a := &c.Nodes[0]
	mustExec(t, a, "ALTER SYSTEM SET wal_level = logical")
	mustExec(t, a, "ALTER SYSTEM SET max_replication_slots = 1")
	if err := errors.Join(a.stop(t.Context(), time.Minute), a.start(t.Context())); err != nil {
		t.Fatal(err)
	}
	mustExec(t, a, "SELECT pg_create_logical_replication_slot('feed', 'pgoutput')")
	var out strings.Builder
	problems, err := (&Rollout{Cell: c, clients: &gate{}}).Plan(t.Context(), &out)
	if err != nil || problems != 2 || !strings.Contains(out.String(), "logical replication slots (feed)") || !strings.Contains(out.String(), "no free replication slot") {
		t.Errorf("%d problems, %v:\n%s", problems, err, &out)
	}
	if err := (&Rollout{Cell: c, clients: &gate{}}).Run(t.Context()); !errors.Is(err, ErrCheck) {
		t.Error(err)
	}
	if there, err := c.Nodes[0].Replacement.exists(t.Context(), c.Nodes[0].Replacement.Directory); there || err != nil {
		t.Errorf("the new directory: %t %v", there, err)
	}
}

func TestReadCell(t *testing.T) {
	name := filepath.Join(t.TempDir(), "cell.yaml")
	write := func(text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`cell: orders
gateway: {admin: "127.0.0.1:9090", token_file: /etc/cinch/token}
nodes:
  - {name: a, url: "postgres://postgres@10.0.0.1/postgres", directory: /data/a,
     replacement: {name: a2, url: "postgres://postgres@10.0.0.2/postgres", directory: /data/a2, run: [ssh, a2]}}
gates: {lag: 2MiB, hold: 3s}
`)
	c, err := ReadCell(name)
	if err != nil {
		t.Fatal(err)
	}
	if c.Gates.Lag != 2<<20 || c.holdTime() != 3*time.Second || c.Nodes[0].Replacement.Run[0] != "ssh" || c.State != name+".state.json" {
		t.Errorf("%+v", c)
	}
	for text, want := range map[string]string{
		"cell: x\n":           "the cell's name",
		"cell: x\nnods: []\n": "nods",
		"cell: x\nnodes: [{name: a}]\ngateway: {admin: x, unmovable: ends}\n":                                                                                                                              `unmovable must be abort or end, not "ends"`,
		"cell: x\nnodes: [{name: a, url: 'postgres://h/d', directory: /d}]\ngateway: {admin: x}\n":                                                                                                         "no replacement",
		"cell: x\nnodes: [{name: a, url: 'postgres://h/d', directory: /d, replacement: {name: b, url: 'postgres://h/d', directory: /d}}]\ngateway: {admin: x}\npatroni: {}\n":                              "needs patroni: {api",
		"cell: x\nnodes: [{name: a, url: 'postgres://h/d', directory: /d, patroni: {api: 'http://h:1', config: /c}, replacement: {name: b, url: 'postgres://h/d', directory: /d}}]\ngateway: {admin: x}\n": "the cell has not",
		"cell: x\nnodes: [{name: a, url: 'postgres://h/d', directory: /d, replacement: {name: b, url: 'postgres://i/d', directory: /d/new}}]\ngateway: {admin: x}\n":                                       "are the same or nested",
		"cell: x\nnodes: [{name: a, url: 'postgres://h/d', directory: /d, replacement: {name: b, url: 'postgres://i/d', directory: e}}]\ngateway: {admin: x}\n":                                            "must begin with /",
		"cell: x\nnodes: [{name: a-1, url: 'postgres://h/d', directory: /d, replacement: {name: a_1, url: 'postgres://i/d', directory: /e}}]\ngateway: {admin: x}\n":                                       "the slot of node a_1",
		"cell: x\nnodes: [{name: a, url: 'postgres://h,i/d', directory: /d, replacement: {name: b, url: 'postgres://j/d', directory: /e}}]\ngateway: {admin: x}\n":                                         "must have one host",
		"cell: x\nnodes: [{name: a, url: 'postgres:///d?host=h,i', directory: /d, replacement: {name: b, url: 'postgres://j/d', directory: /e}}]\ngateway: {admin: x}\n":                                   "must have one host",
		"cell: x\nnodes: [{name: a, url: 'postgres://h/d?port=5433', directory: /d, replacement: {name: b, url: 'postgres://h:5433/d', directory: /e}}]\ngateway: {admin: x}\n":                            "the url of another node: h:5433",
	} {
		write(text)
		if _, err := ReadCell(name); !errors.Is(err, ErrCell) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
