package replace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

// service is `cinch serve`, across several processes.
type service struct {
	t      *testing.T
	binary string
	config string
	log    string // all processes append to it
	pids   []int
}

// start starts a service with gateways from these YAML lines, and with given sockets by the names of
// gateways.
func start(t *testing.T, gateways string, sockets map[string]net.Listener) *service {
	t.Helper()
	dir := t.TempDir()
	s := &service{t: t, binary: filepath.Join(dir, "cinch"), config: filepath.Join(dir, "cinch.yaml"), log: filepath.Join(dir, "log")}
	text := "admin: {listen: off}\ndrain_grace: 200ms\ndrain_timeout: 5s\ngateways:\n" + gateways
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(testenv.Cinch(t), s.binary); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.end)
	s.run(sockets)
	return s
}

// run starts a process, as a service manager does.
func (s *service) run(sockets map[string]net.Listener) {
	s.t.Helper()
	before := s.count("gateway listens")
	out, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$0" serve --config "$1"`, s.binary, s.config)
	cmd.Stderr, cmd.Env = out, os.Environ()
	var names []string
	for name, l := range sockets {
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			s.t.Fatal(err)
		}
		defer f.Close()
		names, cmd.ExtraFiles = append(names, name), append(cmd.ExtraFiles, f)
	}
	if len(names) > 0 {
		cmd.Env = append(cmd.Env, fmt.Sprintf("LISTEN_FDS=%d", len(names)), "LISTEN_FDNAMES="+strings.Join(names, ":"))
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.pids = append(s.pids, cmd.Process.Pid)
	go func() { _ = cmd.Wait() }()
	testenv.Eventually(s.t, "it serves", func() bool { return s.count("gateway listens") > before })
}

// install replaces the program by a script. back undoes it.
func (s *service) install(script string) (back func()) {
	s.t.Helper()
	aside := s.binary + ".aside"
	err := errors.Join(os.Rename(s.binary, aside), os.WriteFile(s.binary, []byte(script), 0o700))
	if err != nil {
		s.t.Fatal(err)
	}
	return func() {
		if err := os.Rename(aside, s.binary); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *service) text() string {
	b, _ := os.ReadFile(s.log)
	return string(b)
}

func (s *service) count(text string) int { return strings.Count(s.text(), text) }

// pid returns the ID of the process that serves.
func (s *service) pid() int { return s.pids[len(s.pids)-1] }

var successor = regexp.MustCompile(`another process serves.* pid=(\d+)`)

// replace makes the process replace itself and waits for the new one.
func (s *service) replace() {
	s.t.Helper()
	before := len(successor.FindAllString(s.text(), -1))
	if err := syscall.Kill(s.pid(), syscall.SIGUSR2); err != nil {
		s.t.Fatal(err)
	}
	var found [][]string
	testenv.Eventually(s.t, "another process serves", func() bool {
		found = successor.FindAllStringSubmatch(s.text(), -1)
		return len(found) > before
	})
	pid := 0
	_, _ = fmt.Sscan(found[len(found)-1][1], &pid)
	s.pids = append(s.pids, pid)
}

// stop stops the process and waits until it has stopped.
func (s *service) stop() {
	s.t.Helper()
	before := s.count("msg=stopped")
	_ = syscall.Kill(s.pid(), syscall.SIGTERM)
	testenv.Eventually(s.t, "it has stopped", func() bool { return s.count("msg=stopped") > before })
}

func (s *service) end() {
	for _, pid := range s.pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if s.t.Failed() {
		s.t.Log(s.text())
	}
}

// load is a set of working clients, whose operations are counted.
type load struct {
	t      *testing.T
	ctx    context.Context
	stop   context.CancelFunc
	all    sync.WaitGroup
	counts []*atomic.Int64
}

func newLoad(t *testing.T) *load {
	l := &load{t: t}
	l.ctx, l.stop = context.WithCancel(context.Background())
	t.Cleanup(func() { l.stop(); l.all.Wait() })
	return l
}

// add starts a client that repeats an operation. An error fails the test, unless the load has ended.
func (l *load) add(name string, do func(ctx context.Context) error) {
	n := new(atomic.Int64)
	l.counts = append(l.counts, n)
	l.all.Go(func() {
		for l.ctx.Err() == nil {
			if err := do(l.ctx); err != nil && l.ctx.Err() == nil {
				l.t.Errorf("%s, after %d: %v", name, n.Load(), err)
			}
			n.Add(1)
			time.Sleep(time.Millisecond) // leaves processors to the processes that start and stop
		}
	})
}

// goesOn waits until each client has done 20 more operations.
func (l *load) goesOn() {
	l.t.Helper()
	const more = 20
	for i, n := range l.counts {
		until := n.Load() + more
		testenv.Eventually(l.t, fmt.Sprintf("client %d goes on", i), func() bool { return n.Load() >= until || l.t.Failed() })
	}
}

// over ends the load and returns the number of operations.
func (l *load) over() (operations int64) {
	l.stop()
	l.all.Wait()
	for _, n := range l.counts {
		operations += n.Load()
	}
	return operations
}
