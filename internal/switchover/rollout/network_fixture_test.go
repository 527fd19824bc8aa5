package rollout

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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

// stop is a step at which a tool waits.
type stop struct {
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
		_ = json.NewEncoder(os.Stdout).Encode(stop{s, done})
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

// tool is a running tool.
type tool struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *json.Decoder
	said  strings.Builder
	ended bool
	err   error
}

func startTool(t *testing.T, cmd *exec.Cmd) *tool {
	t.Helper()
	u := &tool{cmd: cmd}
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

// next returns the next stop. ok is false when the tool has ended.
func (u *tool) next() (s stop, ok bool) {
	if err := u.out.Decode(&s); err != nil {
		u.err, u.ended = u.cmd.Wait(), true
		return s, false
	}
	return s, true
}

func (u *tool) goOn() { _, _ = io.WriteString(u.in, "go\n") }
