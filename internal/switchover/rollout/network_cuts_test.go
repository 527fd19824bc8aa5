package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/test/testenv"
)

var cuts = flag.Bool("rollout.cuts", false, "cut links for a minute each, at each step, with the times that a cell has by default")

// aCut is a link that is cut when a step begins, and healed when the tool has given up or has ended.
type aCut struct {
	step  Step
	link  link
	abort bool // aborted afterwards, if still possible
}

var links = []link{{onTool, onGateway}, {onTool, onOld}, {onTool, onNew}, {onGateway, onOld}, {onGateway, onNew}, {onOld, onNew}}

// triedCuts returns a cut of each link at each step.
func triedCuts() (list []aCut) {
	for i, step := range primarySteps {
		for j, l := range links {
			list = append(list, aCut{step, l, (i+j)%2 == 1})
		}
	}
	return list
}

// A link that is cut at any step costs another try, or the roll-out is aborted. There are never two
// primaries, and nothing is lost or stored twice.
func TestCuts(t *testing.T) {
	testenv.Full(t)
	var mu sync.Mutex
	rows := map[string]string{}
	t.Run("cut", func(t *testing.T) {
		for _, c := range triedCuts() {
			t.Run(strings.ReplaceAll(string(c.step)+"/"+c.link.String(), " ", "_"), func(t *testing.T) {
				t.Parallel()
				row := c.run(t, newWorld(t))
				mu.Lock()
				defer mu.Unlock()
				rows[string(c.step)+c.link.String()] = row
			})
		}
	})
	t.Logf("%-10s %-14s %-26s %9s %9s %5s %6s", "step", "link cut", "then", "primaries", "committed", "lost", "twice")
	for _, c := range triedCuts() {
		t.Logf("%-10s %-14s %s", c.step, c.link, rows[string(c.step)+c.link.String()])
	}
}

func (c aCut) run(t *testing.T, w *world) (row string) {
	eyes := w.watch()
	clients := w.clients(2)
	how := w.cutAndGoOn(c)
	if how == "" && c.abort {
		how = w.abort()
	}
	for try := 1; how == ""; try++ {
		u := w.tool(t)
		for _, ok := u.next(); ok; _, ok = u.next() {
			u.goOn()
		}
		switch {
		case u.err == nil:
			how = fmt.Sprintf("resumed, %d more runs", try)
		case try == 5:
			t.Fatalf("it does not come to an end: %s", u.said.String())
		}
	}
	clients.goesOn(t)
	primaries := eyes()
	committed, lost, twice := clients.judge(t, w.primary(t))
	if primaries > 1 || lost > 0 || twice > 0 {
		t.Errorf("%d primaries, %d lost, %d twice", primaries, lost, twice)
	}
	return fmt.Sprintf("%-26s %9d %9d %5d %6d", how, primaries, committed, lost, twice)
}

// world is a cell on separate hosts, with clients that go through a gateway on another one.
type world struct {
	t    *testing.T
	net  *network
	file string // the cell's file
	dir  string

	old, made Node // with URLs that no cut network affects
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, net: newNetwork(t)}
	var as []string
	w.dir, as = testenv.PostgresDir(t)
	bin := testenv.PostgresBin(t)
	w.file = filepath.Join(t.TempDir(), "cell.yaml")
	cell := map[string]any{"cell": "orders", "replication": "user=postgres", "gateway": map[string]any{
		"admin": addr(onGateway) + ":9470", "token_file": w.token(), "unmovable": "end",
	}, "gates": w.times()}
	old, made := w.node(&w.old, "a", onOld, as, bin), w.node(&w.made, "a2", onNew, as, bin)
	made["options"] = map[string]string{"unix_socket_directories": w.made.Directory + "-socket"}
	old["replacement"] = made
	cell["nodes"] = []any{old}
	text, err := json.Marshal(cell) // JSON is YAML
	if err == nil {
		err = os.WriteFile(w.file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.startPrimary()
	w.startGateway()
	return w
}

// times returns a cell's defaults if links are cut for a minute, and otherwise short times.
func (w *world) times() map[string]any {
	if *cuts {
		return map[string]any{}
	}
	return map[string]any{"catch_up": "5s", "hold": "3s", "shutdown": "10s"}
}

func (w *world) token() string {
	name := filepath.Join(filepath.Dir(w.file), "token")
	if err := os.WriteFile(name, []byte("a token of some length\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return name
}

// node makes a node, for the test, which reaches it by a socket in the file system, and for the tool, which
// has only the network.
func (w *world) node(n *Node, name string, host int, as []string, bin string) map[string]any {
	t := w.t
	*n = Node{Name: name, Directory: filepath.Join(w.dir, name), Run: as, Bin: bin}
	socket := n.Directory + "-socket"
	n.URL = "postgres://postgres@/postgres?host=" + socket
	if _, err := n.command(t.Context(), "mkdir", "-p", socket); err != nil {
		t.Fatal(err)
	}
	run := w.shell(host, as)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if running, _ := n.running(ctx); running {
			_, _ = n.command(ctx, n.program("pg_ctl"), "stop", "-D", n.Directory, "-m", "immediate")
		}
	})
	return map[string]any{
		"name": name, "url": "postgres://postgres@" + addr(host) + "/postgres", "directory": n.Directory, "bin": bin,
		"run": run,
	}
}

// shell starts a command server on a host, and returns the prefix for commands from other hosts.
func (w *world) shell(host int, as []string) (run []string) {
	t := w.t
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	server := w.net.command(host, append(as[:len(as):len(as)], exe, "shell-server", addr(host)+":2222")...)
	out, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = server.Process.Kill(), server.Wait() })
	if _, err := io.ReadFull(out, make([]byte, len("listens\n"))); err != nil {
		t.Fatal(err)
	}
	return []string{exe, "shell", addr(host) + ":2222"}
}

func (w *world) startPrimary() {
	t, a := w.t, &w.old
	initialize(t, a)
	conf := fmt.Sprintf("listen_addresses = '*'\nunix_socket_directories = '%s'\nfsync = off\nmax_connections = 50\n", a.Directory+"-socket")
	if !*cuts {
		conf += "wal_sender_timeout = 3s\nwal_receiver_timeout = 3s\nwal_retrieve_retry_interval = 500ms\n"
	}
	script := `printf %s "$1" >> "$2/postgresql.conf"; printf 'host all all 10.0.0.0/8 trust\nhost replication all 10.0.0.0/8 trust\n' >> "$2/pg_hba.conf"`
	if _, err := a.command(t.Context(), "sh", "-c", script, "sh", conf, a.Directory); err != nil {
		t.Fatal(err)
	}
	start := append(a.Run[:len(a.Run):len(a.Run)], a.program("pg_ctl"), "start", "-w", "-s", "-D", a.Directory, "-l", a.Directory+"/startup.log")
	cmd := w.net.command(onOld, start...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	mustExec(t, a, accounts)
	mustExec(t, a, "ALTER TABLE ledger DROP CONSTRAINT ledger_pkey")
}

func (w *world) startGateway() {
	t := w.t
	upstream := "postgres://postgres@" + addr(onOld) + "/postgres?state_file=" + filepath.Join(t.TempDir(), "gateway.json")
	cmd := w.net.command(onGateway, testenv.Cinch(t), "serve", "--postgres", addr(onGateway)+":6432="+upstream, "--admin", addr(onGateway)+":9470",
		"--admin-token-file", filepath.Join(filepath.Dir(w.file), "token"))
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = cmd.Process.Kill(), cmd.Wait()
		if t.Failed() {
			t.Logf("the gateway said:\n%s", said.String())
		}
	})
	dial := w.net.dialer(onGateway)
	testenv.Eventually(t, "the gateway listens", func() bool {
		for _, port := range []string{":6432", ":9470"} {
			c, err := dial(t.Context(), "tcp", addr(onGateway)+port)
			if err != nil {
				return false
			}
			_ = c.Close()
		}
		return true
	})
}

func (w *world) tool(t *testing.T) *tool {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return startTool(t, w.net.command(onTool, exe, "tool", w.file))
}

// cutAndGoOn runs the tool, and cuts the link when the step begins. how is empty if the tool has given up.
func (w *world) cutAndGoOn(c aCut) (how string) {
	healed := make(chan struct{})
	cut := false
	var u *tool
	for try := 0; !cut; try++ { // on a busy machine an earlier step may fail
		if try == 5 {
			w.t.Fatalf("it has not come to %s: %s", c.step, u.said.String())
		}
		u = w.tool(w.t)
		for s, ok := u.next(); ok; s, ok = u.next() {
			w.t.Log(s)
			if s == (stop{Step: c.step}) && !cut {
				cut = true
				w.net.cut(c.link)
				if *cuts {
					time.AfterFunc(time.Minute, func() { w.net.heal(c.link); close(healed) })
				}
			}
			u.goOn()
		}
	}
	if *cuts {
		<-healed
	} else {
		w.net.heal(c.link)
	}
	if u.err == nil {
		return "went on"
	}
	w.t.Log(u.lastError())
	return ""
}

func (u *tool) lastError() string {
	said := u.said.String()
	return said[strings.LastIndex(said, "ERROR")+len("ERROR"):]
}

// abort aborts the roll-out, and accepts that it is too late for that.
func (w *world) abort() string {
	exe := testenv.Cinch(w.t)
	out, err := w.net.command(onTool, exe, "rollout", "abort", w.file).CombinedOutput()
	if err == nil {
		return "aborted"
	}
	if !strings.Contains(string(out), ErrNoWayBack.Error()) {
		w.t.Errorf("abort: %s", out)
	}
	return ""
}

// primary returns the node that takes writes.
func (w *world) primary(t *testing.T) *Node {
	t.Helper()
	for _, n := range []*Node{&w.made, &w.old} {
		if standby, err := n.inRecovery(t.Context()); err == nil && !standby {
			return n
		}
	}
	t.Fatal("no primary")
	return nil
}

// watch polls both servers. The function that it returns ends that, and returns the highest number of
// simultaneous primaries.
func (w *world) watch() (stop func() int) {
	ctx, cancel := context.WithCancel(w.t.Context())
	over := make(chan int)
	takes := func(n *Node) bool {
		standby, err := n.inRecovery(ctx)
		return err == nil && !standby
	}
	go func() {
		most := 0
		for ctx.Err() == nil {
			now := 0
			switch old, made := takes(&w.old), takes(&w.made); {
			case old && made && takes(&w.old): // still, after the new one was a primary
				now = 2
			case old || made:
				now = 1
			}
			most = max(most, now)
			_ = pause(ctx)
		}
		over <- most
	}()
	return func() int {
		cancel()
		return <-over
	}
}

// clients moves money through the gateway. Each number is tried once, so none may be stored twice.
type clients struct {
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu    sync.Mutex
	acked []string // client and number of confirmed commits
	broke int      // connections that ended before their client did
}

func (w *world) clients(n int) *clients {
	cfg, err := pgx.ParseConfig("postgres://postgres@" + addr(onGateway) + ":6432/postgres?sslmode=disable")
	if err != nil {
		w.t.Fatal(err)
	}
	cfg.DialFunc = w.net.dialer(onGateway)
	return startClients(w.t, cfg, n)
}

func startClients(t *testing.T, cfg *pgx.ConnConfig, n int) *clients {
	ctx, cancel := context.WithCancel(t.Context())
	cs := &clients{cancel: cancel}
	for i := range n {
		cs.all.Go(func() { cs.one(ctx, cfg, i) })
	}
	return cs
}

func (cs *clients) one(ctx context.Context, cfg *pgx.ConnConfig, client int) {
	var c *pgx.Conn
	for number := 0; ctx.Err() == nil; number++ {
		var err error
		if c == nil || c.IsClosed() {
			if c, err = pgx.ConnectConfig(ctx, cfg); err != nil {
				_ = pause(ctx)
				continue
			}
		}
		_, err = c.PgConn().Exec(ctx, fmt.Sprintf(`BEGIN; INSERT INTO ledger VALUES (%d, %d); UPDATE account SET balance = balance - 1 WHERE id = %d;
			UPDATE account SET balance = balance + 1 WHERE id = %d; COMMIT`, client, number, client, client+10)).ReadAll()
		cs.mu.Lock()
		switch {
		case err == nil:
			cs.acked = append(cs.acked, fmt.Sprintf("%d %d", client, number))
		case ctx.Err() == nil:
			cs.broke++
		}
		cs.mu.Unlock()
		if err != nil {
			_ = c.Close(ctx)
		}
		_ = pauseFor(ctx, pollPause/10) // others have the machine, too
	}
	if c != nil {
		_ = c.Close(context.WithoutCancel(ctx))
	}
}

func (cs *clients) count() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return len(cs.acked)
}

// goesOn waits until clients write again, and ends them.
func (cs *clients) goesOn(t *testing.T) {
	t.Helper()
	was := cs.count()
	testenv.Eventually(t, "clients write", func() bool { return cs.count() > was+10 })
	cs.cancel()
	cs.all.Wait()
}

// judge compares the confirmed commits with what is stored.
func (cs *clients) judge(t *testing.T, primary *Node) (committed, lost, twice int) {
	t.Helper()
	there := map[string]int{}
	total := 0
	err := primary.ask(t.Context(), func(c *pgx.Conn) error {
		rows, _ := c.Query(t.Context(), "SELECT client || ' ' || number FROM ledger")
		list, err := pgx.CollectRows(rows, pgx.RowTo[string])
		for _, one := range list {
			there[one]++
		}
		return errors.Join(err, c.QueryRow(t.Context(), "SELECT sum(balance) FROM account").Scan(&total))
	})
	if err != nil || total != 2000 {
		t.Errorf("%d in accounts: %v", total, err)
	}
	for _, one := range cs.acked {
		if there[one] == 0 {
			lost++
		}
	}
	for _, times := range there {
		if times > 1 {
			twice++
		}
	}
	return len(cs.acked), lost, twice
}
