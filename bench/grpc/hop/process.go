//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/tail"
)

// stage holds the processes of a measurement.
type stage struct {
	o       options
	dir     string
	self    string
	server  string  // address
	proxies []proxy // the gateway or pair, that of the other build, and HAProxy
	stops   []func()
}

// proxy is a process between client and server, or two, one behind the other.
type proxy struct {
	name, addr string
	pids       []int
}

// The CPUs that processes get when they are pinned.
const (
	anywhere = iota
	gatewaysCPU
	othersCPUs
)

// pinned calls start on a thread with the given CPUs; a new process inherits its parent's affinity.
func pinned(where int, start func() error) error {
	if where == anywhere {
		return start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	last := 0
	for i := range len(before) * 64 {
		if before.IsSet(i) {
			set.Set(i)
			last = i
		}
	}
	set.Clear(last)
	if where == gatewaysCPU {
		set.Zero()
		set.Set(last)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return err
	}
	defer func() { _ = unix.SchedSetaffinity(0, &before) }()
	if where == othersCPUs {
		defer inTurns()()
	}
	return start()
}

// inTurns gives new processes of this thread short scheduler slices, until the returned function is called:
// client and server share a CPU, and would wait some milliseconds for each other. Before Linux 6.12 it has no
// effect.
func inTurns() (stop func()) {
	const turn = 100 * time.Microsecond
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Runtime: uint64(turn)}, 0)
	return func() { _ = unix.SchedSetAttr(0, &unix.SchedAttr{}, 0) }
}

func (s *stage) cpus(where int) int {
	if s.o.pin {
		return where
	}
	return anywhere
}

// set starts the server and the proxies.
func (s *stage) set(ctx context.Context) (err error) {
	if s.self, err = os.Executable(); err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "hop"); err != nil {
		return err
	}
	s.stops = append(s.stops, func() { _ = os.RemoveAll(s.dir) })
	if s.server, err = rig.FreeAddr(); err != nil {
		return err
	}
	if _, err = s.start(ctx, othersCPUs, s.server, s.self, "-role", "server", "-addr", s.server); err != nil {
		return err
	}
	binary := s.o.binary
	if binary == "" {
		binary = filepath.Join(s.dir, "cinch")
		if err := build(ctx, binary); err != nil {
			return err
		}
	}
	name := "gateway"
	if s.o.pair {
		name = "pair"
	}
	if err := s.startGateways(ctx, name, binary); err != nil {
		return err
	}
	if s.o.beside != "" {
		if err := s.startGateways(ctx, name+" of the other build", s.o.beside); err != nil {
			return err
		}
	}
	if s.o.pair {
		return nil
	}
	return s.setHAProxy(ctx)
}

// startGateways starts a gateway, or with -pair two, the far one first.
func (s *stage) startGateways(ctx context.Context, name, binary string) error {
	x, upstream, roles := proxy{name: name}, s.server, []string{""}
	if s.o.pair {
		roles = []string{"far", "near"}
	}
	for _, role := range roles {
		addr, err := rig.FreeAddr()
		if err != nil {
			return err
		}
		config := filepath.Join(s.dir, fmt.Sprintf("cinch-%d.yaml", len(s.stops)))
		if err := os.WriteFile(config, []byte(s.config(role, addr, upstream)), 0o600); err != nil {
			return err
		}
		pid, err := s.start(ctx, gatewaysCPU, addr, binary, "serve", "--config", config, "--admin", "off")
		if err != nil {
			return err
		}
		x.addr, x.pids, upstream = addr, append(x.pids, pid), addr
	}
	s.proxies = append(s.proxies, x)
	return nil
}

const haproxyText = `global
  nbthread 1
  maxconn 2000
defaults
  mode http
  timeout client 1h
  timeout server 1h
  timeout connect 5s
listen bench
  bind %s proto h2
  server s %s proto h2
`

// setHAProxy starts HAProxy with one thread, since the gateway has one CPU.
func (s *stage) setHAProxy(ctx context.Context) error {
	bin, err := exec.LookPath("haproxy")
	if err != nil {
		return errors.New("haproxy is missing: scripts/servers install bench")
	}
	addr, err := rig.FreeAddr()
	if err != nil {
		return err
	}
	file := filepath.Join(s.dir, "haproxy.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, haproxyText, addr, s.server), 0o600); err != nil {
		return err
	}
	pid, err := s.start(ctx, gatewaysCPU, addr, bin, "-db", "-f", file)
	s.proxies = append(s.proxies, proxy{"HAProxy", addr, []int{pid}})
	return err
}

// config returns the configuration of a gateway: far, near, or "" if it is the only one.
func (s *stage) config(role, listen, upstream string) string {
	text := fmt.Sprintf("gateways:\n  - name: hop\n    protocol: grpc\n    listen: %s\n    upstream: grpc://%s\n", listen, upstream)
	switch {
	case role != "":
		text += fmt.Sprintf("    peers: %t\n    rules:\n      - {setting: %s}\n", role == "far", s.o.setting)
	case s.o.setting != "":
		text += fmt.Sprintf("    upstream_encodings: [zstd, minlz, s2, snappy, lz4, gzip]\n    rules:\n      - {setting: %s}\n", s.o.setting)
	}
	return text
}

func build(ctx context.Context, out string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", out, "./cmd/cinch")
	cmd.Dir = filepath.Join("..", "..")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build ./cmd/cinch, in bench/grpc/../..: %w\n%s", err, text)
	}
	return nil
}

// start starts a process and waits until it accepts connections at addr. The process runs until clear.
func (s *stage) start(ctx context.Context, where int, addr string, name string, args ...string) (pid int, err error) {
	cmd := exec.CommandContext(ctx, name, args...)
	text := tail.Buffer{MaxBytes: 64 << 10}
	cmd.Stderr = &text
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	if err := pinned(s.cpus(where), cmd.Start); err != nil {
		return 0, err
	}
	s.stops = append(s.stops, func() {
		_ = in.Close()
		_ = cmd.Process.Signal(os.Interrupt)
		kill := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		kill.Stop()
	})
	for range 200 {
		if c, err := net.Dial("tcp", addr); err == nil {
			return cmd.Process.Pid, c.Close()
		}
		time.Sleep(20 * time.Millisecond)
	}
	return 0, fmt.Errorf("%s does not listen:\n%s", filepath.Base(name), text.String())
}

func (s *stage) clear() {
	for i := len(s.stops) - 1; i >= 0; i-- {
		s.stops[i]()
	}
}

// client makes rate calls a second, or as many as possible if rate is 0.
func (s *stage) client(ctx context.Context, addr string, rate float64, seed int) (out outcome, err error) {
	cmd := exec.CommandContext(ctx, s.self, "-role", "client", "-addr", addr,
		"-rate", fmt.Sprint(rate), "-seed", fmt.Sprint(seed), "-time", s.o.each.String(),
		"-size", fmt.Sprint(s.o.size), "-conns", fmt.Sprint(s.o.conns))
	var text, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &failure
	if err := pinned(s.cpus(othersCPUs), cmd.Start); err != nil {
		return out, err
	}
	if err := cmd.Wait(); err != nil {
		return out, fmt.Errorf("client: %w\n%s", err, failure.String())
	}
	if err := json.Unmarshal(text.Bytes(), &out); err != nil {
		return out, err
	}
	if out.Calls == 0 {
		return out, errors.New("no call was answered in time: the machine may be busy")
	}
	return out, nil
}

// machine describes the machine that this runs on.
func machine() string {
	return fmt.Sprintf("%s, load average %s at the start", rig.Machine(), rig.LoadAverage())
}
