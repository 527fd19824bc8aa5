package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// process is a server that this program started and stops.
type process struct {
	name string
	addr string // 127.0.0.1:port
	cmd  *exec.Cmd
	out  bytes.Buffer
}

// start runs a program that will answer on addr. The buffer is read after the end only.
func start(name, addr, dir string, args ...string) (*process, error) {
	p := &process{name: name, addr: addr, cmd: exec.Command(args[0], args[1:]...)}
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	client := p.client()
	defer client.Close()
	for range 500 {
		if client.Ping(context.Background()).Err() == nil {
			return p, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.stop()
	return nil, fmt.Errorf("%s does not answer on %s:\n%s", name, addr, p.out.String())
}

func (p *process) stop() {
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

func (p *process) client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: p.addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1})
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

// freeAddr is an address of 127.0.0.1 that nothing listened on a moment ago.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func (o *options) startRedis() (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	dir, err := os.MkdirTemp(o.work, "redis-")
	if err != nil {
		return nil, err
	}
	return start("redis-server", addr, dir, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--daemonize", "no")
}

func (o *options) startForward(upstream *process) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	return start("forward", addr, o.work, o.forward, addr, upstream.addr)
}

// startGateway runs cinch serve with one gateway; rule is the YAML of its only rule, "" for
// none.
func (o *options) startGateway(upstream *process, rule, dictionary string) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.work, "gateway-")
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString("admin: {listen: off}\nlog: {level: warn}\n")
	if dictionary != "" {
		fmt.Fprintf(&b, "dictionaries: [{name: trained, file: %q}]\n", dictionary)
	}
	fmt.Fprintf(&b, "gateways:\n  - name: bench\n    protocol: redis\n    listen: %q\n    upstream: redis://%s\n", addr, upstream.addr)
	if rule == "" {
		b.WriteString("    enabled: false\n")
	} else {
		fmt.Fprintf(&b, "    rules: [%s]\n", rule)
	}
	file := filepath.Join(dir, "cinch.yaml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		return nil, err
	}
	return start("cinch", addr, dir, o.cinch, "serve", "--config", file)
}
