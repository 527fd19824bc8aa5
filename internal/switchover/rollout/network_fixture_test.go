package rollout

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"github.com/cinch-layer/cinch/test/testenv"
)

// Hosts with a network between them whose links can be cut: packets are dropped without notice, as when a
// switch has died.
//
//	tool ── 10.0.0.2 ─┐
//	gateway 10.0.1.2 ─┤ router: drops packets between two hosts whose link is cut
//	old ─── 10.0.2.2 ─┤
//	new ─── 10.0.3.2 ─┘

// network has a router and hosts, each a network namespace.
type network struct {
	t      *testing.T
	prefix string
}

// Numbers of the hosts of a network.
const (
	onTool = iota
	onGateway
	onOld
	onNew
	hosts
)

var hostNames = [hosts]string{"tool", "gateway", "old", "new"}

func newNetwork(t *testing.T) *network {
	t.Helper()
	for _, program := range []string{"ip", "setpriv"} {
		if _, err := exec.LookPath(program); err != nil {
			without(t, "%s is not installed: apt install iproute2 util-linux", program)
		}
	}
	if os.Getuid() != 0 {
		without(t, "network namespaces need root")
	}
	n := &network{t: t, prefix: fmt.Sprintf("cinch-%d-%x-", os.Getpid(), time.Now().UnixNano()&0xffffff)}
	t.Cleanup(func() {
		for _, ns := range append(hostNames[:], "router") {
			_ = exec.Command("ip", "netns", "del", n.prefix+ns).Run()
		}
	})
	if out, err := exec.Command("ip", "netns", "add", n.prefix+"router").CombinedOutput(); err != nil {
		without(t, "this machine does not allow network namespaces: %s", out)
	}
	n.must("netns", "exec", n.prefix+"router", "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
	for i := range hosts {
		n.add(i)
	}
	return n
}

// without skips a test, or fails it where all programs are required.
func without(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

func (n *network) add(host int) {
	ns, router := n.prefix+hostNames[host], n.prefix+"router"
	n.must("netns", "add", ns)
	there := fmt.Sprintf("h%d", host)
	n.must("link", "add", "eth0", "netns", ns, "type", "veth", "peer", "name", there, "netns", router)
	n.must("-n", ns, "addr", "add", addr(host)+"/24", "dev", "eth0")
	n.must("-n", router, "addr", "add", fmt.Sprintf("10.0.%d.1/24", host), "dev", there)
	n.must("-n", ns, "link", "set", "lo", "up")
	n.must("-n", ns, "link", "set", "eth0", "up")
	n.must("-n", router, "link", "set", there, "up")
	n.must("-n", ns, "route", "add", "default", "via", fmt.Sprintf("10.0.%d.1", host))
}

func addr(host int) string { return fmt.Sprintf("10.0.%d.2", host) }

func (n *network) must(args ...string) {
	n.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		n.t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// link is a pair of hosts.
type link [2]int

func (l link) String() string { return hostNames[l[0]] + "-" + hostNames[l[1]] }

// cut makes the router drop packets between the two hosts; heal ends that.
func (n *network) cut(l link)  { n.rules("add", l) }
func (n *network) heal(l link) { n.rules("del", l) }

func (n *network) rules(do string, l link) {
	n.t.Helper()
	for _, way := range []link{l, {l[1], l[0]}} {
		n.must("-n", n.prefix+"router", "rule", do, "pref", "10", "from", addr(way[0]), "to", addr(way[1]), "type", "blackhole")
	}
}

// command returns a command that runs on a host, and ends with the test.
func (n *network) command(host int, args ...string) *exec.Cmd {
	args = append([]string{"netns", "exec", n.prefix + hostNames[host]}, args...)
	return exec.CommandContext(n.t.Context(), "ip", args...)
}

// dialer returns a function that connects from a host.
func (n *network) dialer(host int) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (c net.Conn, err error) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		here, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return nil, err
		}
		defer here.Close()
		there, err := os.Open("/run/netns/" + n.prefix + hostNames[host])
		if err != nil {
			return nil, err
		}
		defer there.Close()
		if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
			return nil, err
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if back := unix.Setns(int(here.Fd()), unix.CLONE_NEWNET); back != nil {
			panic(back) // this thread can't be used any more
		}
		if err != nil {
			return nil, err
		}
		return connect(ctx, fd, address)
	}
}

// connect connects a socket, which stays in the namespace where it was made.
func connect(ctx context.Context, fd int, address string) (net.Conn, error) {
	file := os.NewFile(uintptr(fd), address)
	defer file.Close()
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	if end, ok := ctx.Deadline(); ok { // limits connect, too
		_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: int64(time.Until(end).Seconds()) + 1})
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}); err != nil {
		return nil, err
	}
	return net.FileConn(file)
}

// A shell on another host, like ssh: a command continues when its connection is lost, and the client gives up
// when the server does not answer.

// order is a command for another host.
type order struct {
	Args  []string
	Input []byte
}

// outcome is the result of an order.
type outcome struct {
	Out, Errs string
	Code      int
}

// serveShell runs the orders that it receives.
func serveShell(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Println("listens")
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			var o order
			if json.NewDecoder(c).Decode(&o) == nil {
				_ = json.NewEncoder(c).Encode(o.run())
			}
		}()
	}
}

func (o order) run() outcome {
	cmd := exec.Command(o.Args[0], o.Args[1:]...)
	var out, errs strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = bytes.NewReader(o.Input), &out, &errs, killTime
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	_ = cmd.Run()
	return outcome{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// goneAfter is the time without an answer after which a client gives up, in milliseconds.
const goneAfter = 5000

// runShell runs a command on another host and returns its exit code.
func runShell(address string, args []string) int {
	d := net.Dialer{
		Timeout:         goneAfter * time.Millisecond,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 4},
		Control: func(_, _ string, raw syscall.RawConn) error {
			return raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, goneAfter) })
		},
	}
	input, _ := io.ReadAll(os.Stdin)
	c, err := d.Dial("tcp", address)
	if err == nil {
		err = json.NewEncoder(c).Encode(order{args, input})
	}
	var o outcome
	if err == nil {
		err = json.NewDecoder(c).Decode(&o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the connection to", address, "has gone:", err)
		return 255
	}
	fmt.Fprint(os.Stdout, o.Out)
	fmt.Fprint(os.Stderr, o.Errs)
	return o.Code
}

// A tool is a roll-out in a separate process. It reports each step, and waits for permission to continue.

// stepReport names a step at which a roll-out waits.
type stepReport struct {
	Step Step
	Done bool
}

func runTool(file string) int {
	c, err := ReadCell(file)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	in := bufio.NewReader(os.Stdin)
	r := &Rollout{Cell: c, Yes: true, Tell: func(node, text string) { fmt.Fprintln(os.Stderr, node, text) }}
	r.dies = func(s Step, done bool) bool {
		_ = json.NewEncoder(os.Stdout).Encode(stepReport{s, done})
		_, err := in.ReadString('\n')
		return err != nil
	}
	if err := r.Run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "ERROR", err)
		return 1
	}
	return 0
}

// TestMain lets this program also serve as the programs on the hosts.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case "shell-server":
			fmt.Fprintln(os.Stderr, serveShell(os.Args[2]))
			os.Exit(1)
		case "shell":
			os.Exit(runShell(os.Args[2], os.Args[3:]))
		case "tool":
			os.Exit(runTool(os.Args[2]))
		}
	}
	flag.Parse()
	if set := flag.Lookup("test.parallel"); set.Value.String() == set.DefValue {
		_ = set.Value.Set(strconv.Itoa(2 * runtime.GOMAXPROCS(0))) // a roll-out mostly waits
	}
	os.Exit(m.Run())
}

// rolloutProcess is a running process of cinch rollout that waits at each step.
type rolloutProcess struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *json.Decoder
	said  strings.Builder
	ended bool
	err   error
}

func startRolloutProcess(t *testing.T, cmd *exec.Cmd) *rolloutProcess {
	t.Helper()
	u := &rolloutProcess{cmd: cmd}
	cmd.Stderr = &u.said
	out, err := cmd.StdoutPipe()
	if err == nil {
		u.in, err = cmd.StdinPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	u.out = json.NewDecoder(out)
	return u
}

// next returns the next step. ok is false when the process has ended.
func (u *rolloutProcess) next() (s stepReport, ok bool) {
	if err := u.out.Decode(&s); err != nil {
		u.err, u.ended = u.cmd.Wait(), true
		return s, false
	}
	return s, true
}

func (u *rolloutProcess) goOn() { _, _ = io.WriteString(u.in, "go\n") }

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

// times returns short times for the gates, or none, for the defaults, if links are cut for a minute (-rollout.cuts).
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

func (w *world) tool(t *testing.T) *rolloutProcess {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return startRolloutProcess(t, w.net.command(onTool, exe, "tool", w.file))
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
		_ = pauseFor(ctx, pollPause/10) // leave CPU time to others
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
