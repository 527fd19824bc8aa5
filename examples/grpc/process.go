package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// process is one that this program started and stops.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer // read after the end only
}

func startProcess(ctx context.Context, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, name, args...)}
	p.cmd.Stderr = &p.stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	return p, p.cmd.Start()
}

// startSelf starts this program in one of its roles.
func startSelf(ctx context.Context, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startProcess(ctx, self, args...)
}

// end closes standard input, which ends our own programs, and returns what is left of the
// output.
func (p *process) end() ([]byte, error) {
	_ = p.in.Close()
	out, _ := io.ReadAll(p.out)
	if err := p.cmd.Wait(); err != nil {
		return out, fmt.Errorf("%w\n%s", err, p.stderr.String())
	}
	return out, nil
}

// interrupt ends a gateway.
func (p *process) interrupt() error {
	_ = p.cmd.Process.Signal(os.Interrupt)
	kill := time.AfterFunc(5*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	_, err := p.end()
	return err
}

// ticks is how often the kernel counts a second of CPU: sysconf(_SC_CLK_TCK), which is 100
// on every Linux that Go runs on.
const ticks = 100

// cpu is the time, user and system, that the process has used, in steps of 10 ms.
func (p *process) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The name in the second field may hold anything but ends at the last parenthesis.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / ticks, err
}

// peak is the most memory that the process held, in bytes.
func (p *process) peak() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(text), "VmHWM:")
	if !ok {
		return 0, fmt.Errorf("process %d has no VmHWM", p.cmd.Process.Pid)
	}
	kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	return kb << 10, err
}

func buildCinch(ctx context.Context, out string) error {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/cinch-layer/cinch").Output()
	if err != nil {
		return fmt.Errorf("run this inside of the repository: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", out, "./cmd/cinch")
	cmd.Dir = strings.TrimSpace(string(root))
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build ./cmd/cinch: %w\n%s", err, text)
	}
	return nil
}

// Ports are taken from below those that the kernel gives to outgoing connections, of which
// the programs here make many.
const lowestPort, highestPort = 12000, 32000

func firstPort() int { return lowestPort + rand.IntN(highestPort-lowestPort) }

// freeAddr is an address of 127.0.0.1 that nothing listened on a moment ago. No two calls
// return the same.
func (r *runner) freeAddr() (addr string, err error) {
	for range 100 {
		addr = fmt.Sprintf("127.0.0.1:%d", r.port)
		if r.port++; r.port == highestPort {
			r.port = lowestPort
		}
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err == nil {
			return addr, l.Close()
		}
	}
	return "", err
}

// waitHealthy asks for the health of whatever is behind an address, gateways and all.
func waitHealthy(ctx context.Context, addr string) error {
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	for {
		_, err = grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not healthy: %w", addr, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
