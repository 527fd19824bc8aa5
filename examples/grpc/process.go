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
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/cinch-layer/cinch/test/rig/proc"
)

// process is a process that this program starts and stops.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer // read only after the process has ended
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

// end closes standard input, which ends this program's roles, and returns the rest of the output.
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

// cpu returns the user and system time that the process has used.
func (p *process) cpu() (time.Duration, error) { return proc.CPU(p.cmd.Process.Pid) }

// peak returns the peak memory of the process in bytes.
func (p *process) peak() (int64, error) { return proc.Peak(p.cmd.Process.Pid) }

// Ports are below the kernel's range for outgoing connections, of which these programs make many.
const lowestPort, highestPort = 12000, 32000

func firstPort() int { return lowestPort + rand.IntN(highestPort-lowestPort) }

// freeAddr returns an address of 127.0.0.1 that was free a moment ago. No two calls return the same until all
// ports have been used.
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

// waitHealthy waits until a health check succeeds at addr, through any gateways.
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
