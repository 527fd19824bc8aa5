package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/rig/tail"
)

const (
	// StartTimeout limits how long WaitReady waits for a program. It allows for a busy machine.
	StartTimeout = time.Minute
	// StartTries limits how often a test tries to start a server, each time on another port: another
	// program may take the free port that FreePort found.
	StartTries = 3

	stopTimeout  = 30 * time.Second
	maxTailBytes = 256 << 10
)

// Process is a running program with the tail of its output.
type Process struct {
	cmd  *exec.Cmd
	out  tail.Buffer
	done chan struct{} // closed when the program has ended and was reaped
	err  error         // valid after done
}

// StartProcess starts a program in a directory. If env is nil the program inherits the environment of the
// test.
func StartProcess(dir string, env []string, name string, args ...string) (*Process, error) {
	p := &Process{cmd: exec.Command(name, args...), out: tail.Buffer{MaxBytes: maxTailBytes}, done: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Env = env
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.SysProcAttr = dieWithParent()
	// A child may outlive the program and keep its output open, as a process of PostgreSQL does when its
	// disk was full.
	p.cmd.WaitDelay = stopTimeout
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.reap()
	return p, nil
}

func (p *Process) reap() {
	p.err = p.cmd.Wait()
	close(p.done)
}

// Pid returns the process ID.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Tail returns the last n lines of what the program printed.
func (p *Process) Tail(n int) string {
	lines := strings.Split(strings.TrimSpace(p.out.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Ended reports whether the program has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop interrupts the process and kills it after stopTimeout. It returns when the process has ended.
func (p *Process) stop() {
	_ = p.cmd.Process.Signal(os.Interrupt)
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		p.Kill()
	}
}

// Kill ends the program with SIGKILL and waits until it has ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// WaitReady polls until ready returns true, the process ends or StartTimeout has passed.
func (p *Process) WaitReady(ready func() bool) error {
	for deadline := time.Now().Add(StartTimeout); time.Now().Before(deadline); {
		if ready() {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("ended while starting: %v\n%s", p.err, p.out.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
	return fmt.Errorf("not ready after %v\n%s", StartTimeout, p.out.String())
}

// AnswersPing reports whether a Redis server or a gateway for one serves at addr. It must answer PING with
// PONG, or with -NOAUTH if it has a password. A server that is still loading answers -LOADING.
func AnswersPing(network, addr string) bool {
	c, err := net.DialTimeout(network, addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(c, "PING\r\n"); err != nil {
		return false
	}
	line := make([]byte, 7)
	n, err := io.ReadAtLeast(c, line, 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return false
	}
	return bytes.HasPrefix(line[:n], []byte("+PONG")) || bytes.HasPrefix(line[:n], []byte("-NOAUTH"))
}

// Accepts reports whether a server listens on addr.
func Accepts(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// NeedsPrograms skips the test with -short, which is ring 1: no program but the test itself runs there.
// Functions of this package that start programs call it; a test that starts a program by itself calls it
// too. Go reuses the test's result as long as the installed programs are the same (CINCH_TEST_SERVERS).
func NeedsPrograms(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts other programs; run it without -short")
	}
	cachedFor(serversHash)
}

// Full skips the test unless CINCH_FULL=1, which make full sets. It is for tests that take too long to run
// before every change.
func Full(t testing.TB) {
	t.Helper()
	NeedsPrograms(t)
	if !IsFull() {
		t.Skip("runs with make full; set CINCH_FULL=1")
	}
}

// IsFull reports whether tests that have a short form run in full.
func IsFull() bool { return os.Getenv("CINCH_FULL") == "1" }

// Missing skips the test because a tool is not installed. With CI=true it fails the test, since CI must
// install everything.
func Missing(t testing.TB, what, hint string) {
	t.Helper()
	NeedsPrograms(t)
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing in CI; %s", what, hint)
	}
	message := fmt.Sprintf("%s is missing; %s", what, hint)
	if s, ok := t.(*sharedTB); ok {
		s.missing = true
	} else {
		recordSkip(message)
	}
	t.Skip(message)
}

// recordSkip appends the message of a test that is skipped because something is missing to the file that
// scripts/steady counts. The file's name differs in each run, so go test does not reuse the results of a
// package that has read it.
func recordSkip(message string) {
	name := os.Getenv("CINCH_TEST_SKIPPED")
	if name == "" {
		return
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err == nil {
		_, err = fmt.Fprintln(file, message)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "can't record a skipped test:", err)
	}
}

// Program returns the path of an installed program. If it is missing the test is skipped, or fails when
// CI=true.
func Program(t testing.TB, name string) string {
	t.Helper()
	NeedsPrograms(t)
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, name, strings.TrimSpace("run: scripts/servers install "+groups[name]))
	}
	return path
}

// groups maps programs that scripts/servers does not install by default to the groups that install them.
var groups = map[string]string{
	"chromium": "page", "curl": "http", "prometheus": "promtool", "promtool": "promtool", "g++": "grpc", "sidekiq": "queues", "etcd": "patroni",
	"java": "clients", "node": "clients", "npm": "clients", "python3": "clients", "php": "library", "ruby": "library",
	"compsize": "btrfs", "mkfs.btrfs": "btrfs", "mariadb": "mariadb", "mariadbd": "mariadb",
}
