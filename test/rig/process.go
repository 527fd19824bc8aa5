// Package rig starts the servers that benchmarks measure, and writes results.
package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/rig/proc"
	"github.com/cinch-layer/cinch/test/rig/tail"
)

// Process is a server that a benchmark started and stops.
type Process struct {
	name string
	Addr string // 127.0.0.1:port
	cmd  *exec.Cmd
	out  tail.Buffer
}

// Output returns what the process has printed so far.
func (p *Process) Output() string { return p.out.String() }

// Signal sends the process a signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Start runs a program and waits until it answers PING on addr.
func Start(name, addr, dir string, args ...string) (*Process, error) {
	return start(name, addr, dir, args, func(p *Process) bool {
		client := p.Client()
		defer client.Close()
		return client.Ping(context.Background()).Err() == nil
	})
}

// StartListener runs a program and waits until it listens on addr. The program may speak any protocol.
func StartListener(name, addr, dir string, args ...string) (*Process, error) {
	return start(name, addr, dir, args, func(p *Process) bool {
		c, err := net.Dial("tcp", p.Addr)
		if err != nil {
			return false
		}
		return c.Close() == nil
	})
}

func start(name, addr, dir string, args []string, answers func(*Process) bool) (*Process, error) {
	p := &Process{name: name, Addr: addr, cmd: exec.Command(args[0], args[1:]...)}
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	for range 3000 {
		if answers(p) {
			return p, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.Stop()
	return nil, fmt.Errorf("%s does not answer on %s:\n%s", name, addr, p.Output())
}

// Stop interrupts the process, kills it after five seconds, and waits until it has exited.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(os.Interrupt)
	ended := make(chan struct{})
	go func() { _ = p.cmd.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-ended
	}
}

// Kill kills the process. The caller must still call Stop.
func (p *Process) Kill() { _ = p.cmd.Process.Kill() }

// Nice sets the priority of the process and its children; 19 is the lowest.
func (p *Process) Nice(n int) error {
	var all []error
	for _, pid := range append([]int{p.cmd.Process.Pid}, proc.Children(p.cmd.Process.Pid)...) {
		for _, thread := range proc.Threads(pid) {
			if err := syscall.Setpriority(syscall.PRIO_PROCESS, thread, n); err != nil && !errors.Is(err, syscall.ESRCH) {
				all = append(all, err)
			}
		}
	}
	return errors.Join(all...)
}

// Client returns a client for the process. The caller closes it.
func (p *Process) Client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: p.Addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1})
}

// CPU returns the user and system time that the process has used.
func (p *Process) CPU() (time.Duration, error) { return proc.CPU(p.cmd.Process.Pid) }

// Peak returns the peak memory of the process so far, in bytes.
func (p *Process) Peak() (int64, error) { return proc.Peak(p.cmd.Process.Pid) }

// Freeze stops the process and its children with SIGSTOP. thaw continues them.
func (p *Process) Freeze() (thaw func(), err error) {
	var frozen []int
	thaw = func() {
		for _, pid := range frozen {
			_ = syscall.Kill(pid, syscall.SIGCONT) // fails if it has ended
		}
	}
	for _, pid := range append([]int{p.cmd.Process.Pid}, proc.Children(p.cmd.Process.Pid)...) {
		switch err := syscall.Kill(pid, syscall.SIGSTOP); err {
		case nil:
			frozen = append(frozen, pid)
		case syscall.ESRCH: // it has ended meanwhile
		default:
			thaw()
			return nil, err
		}
	}
	return thaw, nil
}

// FreeAddr returns an address of 127.0.0.1 that was free a moment ago.
func FreeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// Redis starts an empty redis-server in a new directory under work.
func Redis(work string, args ...string) (*Process, error) {
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	dir, err := os.MkdirTemp(work, "redis-")
	if err != nil {
		return nil, err
	}
	return Start("redis-server", addr, dir, append([]string{"redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--daemonize", "no"}, args...)...)
}

// Gateway runs cinch serve with one gateway in front of upstream. top is top-level YAML; settings is YAML of
// the gateway in addition to its name, protocol and addresses.
func Gateway(cinch, work string, upstream *Process, top, settings string) (*Process, error) {
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(work, "gateway-")
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("admin: {listen: off}\n%s\ngateways:\n  - name: bench\n    protocol: redis\n    listen: %q\n    upstream: redis://%s\n    %s\n",
		top, addr, upstream.Addr, settings)
	file := filepath.Join(dir, "cinch.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return Start("cinch", addr, dir, cinch, "serve", "--config", file)
}

// Build compiles a package of this repository, so that no `go run` process is measured.
func Build(out, pkg string) error {
	if text, err := exec.Command("go", "build", "-o", out, pkg).CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, text)
	}
	return nil
}
