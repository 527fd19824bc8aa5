package shadow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
)

// Process runs a candidate as a separate process, so that its work does not slow this one down.
type Process struct {
	Program string
	Args    []string
	// Listen returns the environment variable that tells the candidate where to listen. It is added to this
	// process's own variables.
	Listen func(address string) string
	// Address holds the settings of connections to the candidate. Start chooses the port, since one that was free hours
	// ago may be taken.
	Address endpoint.Upstream
}

// Time limits for a candidate to start listening, and to drain.
const (
	startTime = 30 * time.Second
	drainTime = 10 * time.Second
)

// Start runs the process and returns when it listens. The returned function drains it.
func (p Process) Start(ctx context.Context) (endpoint.Upstream, func(), error) {
	address, err := freeAddress()
	if err != nil {
		return endpoint.Upstream{}, nil, err
	}
	p.Address.Network, p.Address.Address = "tcp", address
	cmd := exec.CommandContext(ctx, p.Program, p.Args...)
	cmd.Env = append(os.Environ(), p.Listen(address))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = drainTime
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return endpoint.Upstream{}, nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stop := func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // fails if it has ended
		hangs := time.AfterFunc(drainTime, func() { _ = cmd.Process.Kill() })
		defer hangs.Stop()
		<-ended
	}
	if err := p.await(ctx, ended); err != nil {
		if errors.Is(err, errEnded) {
			return endpoint.Upstream{}, nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(said.Bytes()))
		}
		stop()
		return endpoint.Upstream{}, nil, err
	}
	return p.Address, stop, nil
}

var errEnded = errors.New("the gateway under test ended")

// await waits until the process listens.
func (p Process) await(ctx context.Context, ended <-chan error) error {
	late := time.After(startTime)
	for {
		if c, err := p.Address.Dial(ctx); err == nil {
			return c.Close()
		}
		select {
		case err := <-ended:
			return fmt.Errorf("%w (%w)", errEnded, err)
		case <-ctx.Done():
			return ctx.Err()
		case <-late:
			return fmt.Errorf("the gateway under test does not listen at %s after %v", p.Address, startTime)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// freeAddress returns a loopback address that is free at the moment.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
