package testenv

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// GatewayConfig configures the build and start of `cinch serve`. If only Upstream is set, the gateway has
// the product's defaults.
type GatewayConfig struct {
	Upstream string // host:port or a URL of the protocol
	Protocol string // redis if empty
	Listen   string // host:port; a free port of 127.0.0.1 if empty

	// Rules is the YAML list under "rules:" of the gateway's configuration file. If it is empty no file is
	// written and the default rules apply.
	Rules string
	// Settings are further YAML lines of that gateway, such as "enabled: false".
	Settings string
	// Process is YAML lines that configure the process itself, such as "training: {poll: 1s}".
	Process string
	Admin   string   // YAML of admin: besides its listen, such as "token_file: /t"
	More    string   // YAML of further gateways: items of the list
	Force   bool     // compress everything that may be compressed, even at a loss (--test-force)
	Args    []string // further arguments of cinch serve

	Unready bool // the upstream does not answer; the gateway is ready once it accepts connections
	TLS     bool // clients must use TLS; the gateway is ready once it accepts connections

	Race   bool // with make full: build with the race detector; a report fails the test
	PureGo bool // build with CGO_ENABLED=0
}

// GatewayServer is a running `cinch serve`. It belongs to one test.
type GatewayServer struct {
	Addr  string // where clients connect, 127.0.0.1:port
	Admin string // host:port of the admin page and /metrics

	cfg      GatewayConfig
	binary   string
	dir      string
	proc     *Process
	expected bool // the test itself has ended the process
}

// gatewayPorts is the number of ports that a gateway gets: its own, and those for nodes behind it.
const gatewayPorts = 16

// Gateway builds cmd/cinch (once per test process and variant) and starts it in front of an upstream on
// free ports. When the test ends the gateway is stopped. If it died before or printed a race report, the
// test fails and its output is logged.
func Gateway(t testing.TB, cfg GatewayConfig) *GatewayServer {
	t.Helper()
	g := &GatewayServer{cfg: cfg, binary: build(t, cfg.Race && IsFull(), cfg.PureGo), dir: t.TempDir()}
	var err error
	for range StartTries {
		if g.Addr = cfg.Listen; g.Addr == "" {
			g.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(FreePorts(t, gatewayPorts, "127.0.0.1")))
		}
		g.Admin = net.JoinHostPort("127.0.0.1", strconv.Itoa(FreePort(t)))
		if err = g.start(); err == nil {
			t.Cleanup(func() { g.finish(t) })
			return g
		}
	}
	t.Fatalf("cinch serve: %v", err)
	return nil
}

// SharesConnections reports whether tests are to let the clients of Redis gateways share connections to the server
// (variable CINCH_TEST_SHARED), so that any suite shows that this makes no difference.
func SharesConnections() bool { return os.Getenv("CINCH_TEST_SHARED") != "" }

func (g *GatewayServer) start() error {
	args, err := g.arguments()
	if err != nil {
		return err
	}
	p, err := StartProcess(g.dir, nil, g.binary, args...)
	if err != nil {
		return err
	}
	if err := p.WaitReady(g.answers); err != nil {
		p.Kill()
		return err
	}
	g.proc, g.expected = p, false
	return nil
}

// answers reports whether the gateway serves: for Redis a PING must be answered; otherwise accepting
// connections is enough, because a test may leave out the upstream.
func (g *GatewayServer) answers() bool {
	if g.protocol() == "redis" && !g.cfg.TLS && !g.cfg.Unready {
		return AnswersPing("tcp", g.Addr)
	}
	return Accepts(g.Addr) && Accepts(g.Admin)
}

func (g *GatewayServer) protocol() string {
	if g.cfg.Protocol == "" {
		return "redis"
	}
	return g.cfg.Protocol
}

func (g *GatewayServer) arguments() ([]string, error) {
	args := []string{"serve"}
	if g.cfg.Rules == "" && g.cfg.Settings == "" && g.cfg.Process == "" && g.cfg.Admin == "" && g.cfg.More == "" {
		args = append(args, "--"+g.protocol(), g.Addr+"="+g.upstream(), "--admin", g.Admin)
	} else {
		file, err := g.writeConfig()
		if err != nil {
			return nil, err
		}
		args = append(args, "--config", file)
	}
	if g.cfg.Force {
		args = append(args, "--test-force")
	}
	if SharesConnections() {
		args = append(args, "--test-shared")
	}
	return append(args, g.cfg.Args...), nil
}

func (g *GatewayServer) upstream() string {
	if strings.Contains(g.cfg.Upstream, "://") {
		return g.cfg.Upstream
	}
	return g.protocol() + "://" + g.cfg.Upstream
}

// Configure rewrites the configuration file of a gateway that has one. The settings and rules take effect
// with the next SIGHUP or restart.
func (g *GatewayServer) Configure(t testing.TB, settings, rules string) {
	t.Helper()
	g.cfg.Settings, g.cfg.Rules = settings, rules
	if _, err := g.writeConfig(); err != nil {
		t.Fatal(err)
	}
}

func (g *GatewayServer) writeConfig() (file string, err error) {
	var b strings.Builder
	writeIndented(&b, "", g.cfg.Process)
	fmt.Fprintf(&b, "admin: {listen: %q, %s}\ngateways:\n  - name: test\n    protocol: %s\n", g.Admin, g.cfg.Admin, g.protocol())
	fmt.Fprintf(&b, "    listen: %q\n    upstream: %q\n", g.Addr, g.upstream())
	writeIndented(&b, "    ", g.cfg.Settings)
	if g.cfg.Rules != "" {
		b.WriteString("    rules:\n")
		writeIndented(&b, "      ", g.cfg.Rules)
	}
	writeIndented(&b, "  ", g.cfg.More)
	file = filepath.Join(g.dir, "cinch.yaml")
	return file, os.WriteFile(file, []byte(b.String()), 0o600)
}

func writeIndented(b *strings.Builder, indent, text string) {
	for line := range strings.Lines(text) {
		b.WriteString(indent)
		b.WriteString(strings.TrimSuffix(line, "\n"))
		b.WriteByte('\n')
	}
}

func (g *GatewayServer) finish(t testing.TB) {
	died := g.proc.Ended() && !g.expected
	g.proc.stop()
	out := g.proc.out.String()
	if died {
		t.Errorf("the gateway died during the test: %v", g.proc.err)
	}
	if strings.Contains(out, "WARNING: DATA RACE") {
		t.Error("the gateway reported a data race")
	}
	if t.Failed() {
		t.Logf("output of cinch serve:\n%s", out)
	}
}

// Pid returns the process ID of the running gateway.
func (g *GatewayServer) Pid() int { return g.proc.Pid() }

// Output returns the end of what the gateway has printed so far, at most 256 KiB.
func (g *GatewayServer) Output() string { return g.proc.out.String() }

// Kill ends the gateway with SIGKILL and waits until it has ended.
func (g *GatewayServer) Kill() {
	g.expected = true
	g.proc.Kill()
}

// Signal sends a signal, such as the SIGTERM that starts a drain or the SIGHUP that reloads.
func (g *GatewayServer) Signal(sig os.Signal) error {
	if sig == os.Interrupt || sig.String() == "terminated" {
		g.expected = true
	}
	return g.proc.cmd.Process.Signal(sig)
}

// Wait waits until the gateway has ended and returns the error of its exit code.
func (g *GatewayServer) Wait() error {
	<-g.proc.done
	return g.proc.err
}

// Restart starts the gateway again on the same ports. It returns an error if the gateway still runs.
func (g *GatewayServer) Restart() error {
	if !g.proc.Ended() {
		return fmt.Errorf("gateway %s still runs", g.Addr)
	}
	return g.start()
}
