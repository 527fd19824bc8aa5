package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/bench/rig/tail"
)

const (
	startTimeout = time.Minute // on a busy machine
	stopTimeout  = 30 * time.Second
	startTries   = 3 // a free port may be taken between the look and the bind
	maxTailBytes = 256 << 10
)

// process is one running program and the tail of what it printed.
type process struct {
	cmd  *exec.Cmd
	out  tail.Buffer
	done chan struct{} // closed when the program has ended and was reaped
	err  error         // valid after done
}

func startProcess(dir string, env []string, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(name, args...), out: tail.Buffer{MaxBytes: maxTailBytes}, done: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Env = env
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.SysProcAttr = dieWithParent()
	p.cmd.WaitDelay = stopTimeout // what it has started may outlive it and hold on to its output, as a process of PostgreSQL does when its disk was full
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.reap()
	return p, nil
}

func (p *process) reap() {
	p.err = p.cmd.Wait()
	close(p.done)
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop asks first and kills after stopTimeout. It returns when the process is gone.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(os.Interrupt)
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		p.kill()
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// waitReady polls until ready says yes, the process ends or startTimeout is over.
func (p *process) waitReady(ready func() bool) error {
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		if ready() {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("ended while starting: %v\n%s", p.err, p.out.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
	return fmt.Errorf("not ready after %v\n%s", startTimeout, p.out.String())
}

// AnswersPing tells whether a Redis server (or something that speaks for one) serves at addr:
// it says PONG, or -NOAUTH if it has a password, and -LOADING before it does.
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

// accepts tells whether something listens on addr.
func accepts(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// NeedsPrograms skips the test with -short, which is the first ring: no program but the test itself runs there. What
// this package starts asks for it; a test that starts a program by itself calls it too.
func NeedsPrograms(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts other programs; run it without -short")
	}
}

// Full skips the test unless CINCH_FULL=1, which make full sets: for what takes too long before every change.
func Full(t testing.TB) {
	t.Helper()
	NeedsPrograms(t)
	if !IsFull() {
		t.Skip("runs with make full; set CINCH_FULL=1")
	}
}

// IsFull reports whether tests that have a short form run in full.
func IsFull() bool { return os.Getenv("CINCH_FULL") == "1" }

// missing skips the test where a tool is not installed, and fails it in CI, which has to
// install everything.
func missing(t testing.TB, what, hint string) {
	t.Helper()
	NeedsPrograms(t)
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing in CI; %s", what, hint)
	}
	t.Skipf("%s is missing; %s", what, hint)
}

// Program returns the path of an installed program. Where it is missing the test is
// skipped, or fails when CI=true.
func Program(t testing.TB, name string) string {
	t.Helper()
	NeedsPrograms(t)
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, name, "run: test/servers install")
	}
	return path
}
