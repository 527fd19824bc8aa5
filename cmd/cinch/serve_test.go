package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/test/testenv"
)

// served is a running serve.
type served struct {
	t       *testing.T
	signals chan os.Signal
	done    chan error
	out     bytes.Buffer // complete when done
	log     logBuffer
}

// logBuffer is written by the process and searched by the test.
type logBuffer struct {
	mu    sync.Mutex
	text  strings.Builder
	wrote chan struct{}
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.wrote <- struct{}{}:
	default:
	}
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *logBuffer) count(text string) int { return strings.Count(b.String(), text) }

func startServe(t *testing.T, o serveOptions) *served {
	t.Helper()
	s := &served{t: t, signals: make(chan os.Signal, 4), done: make(chan error, 1)}
	s.log.wrote = make(chan struct{}, 1)
	go func() { s.done <- runServe(o, s.signals, &s.out, &s.log) }()
	return s
}

// patience is the time on a busy machine after which something is considered to hang.
const patience = 3 * time.Minute

// logged waits for a line of the log.
func (s *served) logged(text string) {
	s.t.Helper()
	deadline := time.After(patience)
	for !strings.Contains(s.log.String(), text) {
		select {
		case <-s.log.wrote:
		case err := <-s.done:
			s.t.Fatalf("serve ended: %v\n%s", err, s.log.String())
		case <-deadline:
			s.t.Fatalf("%q is not logged:\n%s", text, s.log.String())
		}
	}
}

func (s *served) wait() error {
	s.t.Helper()
	select {
	case err := <-s.done:
		return err
	case <-time.After(patience):
		s.t.Fatalf("serve does not end:\n%s", s.log.String())
		return nil
	}
}

// stop ends the process by a signal, and closes the test's clients, which a drain would wait for.
func (s *served) stop(by os.Signal) {
	s.t.Helper()
	s.signals <- by
	for _, c := range dialled[s.t] {
		_ = c.Close()
	}
	if err := s.wait(); err != nil {
		s.t.Error(err)
	}
}

// reload makes the process read its configuration and waits until that is logged.
func (s *served) reload(logged string) {
	s.t.Helper()
	before := s.log.count(logged)
	s.signals <- syscall.SIGHUP
	testenv.Eventually(s.t, "it is logged: "+logged, func() bool { return s.log.count(logged) > before })
}

// socket returns a path short enough for a unix socket.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cinch")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// client speaks RESP without a library.
type client struct {
	t *testing.T
	c net.Conn
	r *bufio.Reader
}

// dialled holds the connections that each test has made with dial.
var dialled = map[*testing.T][]net.Conn{}

func dial(t *testing.T, path string) *client {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	dialled[t] = append(dialled[t], c)
	t.Cleanup(func() { _ = c.Close(); delete(dialled, t) })
	_ = c.SetDeadline(time.Now().Add(patience))
	return &client{t, c, bufio.NewReader(c)}
}

// do returns the text of a simple, integer, error or bulk reply.
func (c *client) do(args ...string) string {
	c.t.Helper()
	c.send(args...)
	line, err := c.r.ReadString('\n')
	if err != nil {
		c.t.Fatalf("%v: %v", args, err)
	}
	line = strings.TrimRight(line, "\r\n")
	var n int
	if _, err := fmt.Sscanf(line, "$%d", &n); err != nil || n < 0 {
		return line
	}
	bulk := make([]byte, n+2)
	if _, err := io.ReadFull(c.r, bulk); err != nil {
		c.t.Fatalf("%v: %v", args, err)
	}
	return string(bulk[:n])
}

func (c *client) send(args ...string) {
	c.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(c.c, b.String()); err != nil {
		c.t.Fatal(err)
	}
}

func adminOff() []config.Override {
	return []config.Override{{From: "--admin", Key: "admin.listen", Value: "off"}}
}

func TestServeEmbedded(t *testing.T) {
	path := socket(t)
	s := startServe(t, serveOptions{listen: "unix:" + path, overrides: adminOff()})
	s.logged("gateway listens")
	value := strings.Repeat("a value of some length, ", 100)
	c := dial(t, path)
	if got := c.do("SET", "k", value); got != "+OK" {
		t.Errorf("SET: %s", got)
	}
	if got := c.do("GET", "k"); got != value {
		t.Errorf("GET: %q", got)
	}
	s.stop(syscall.SIGTERM)
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket is left behind")
	}
	if strings.Contains(s.log.String(), "unreachable") {
		t.Errorf("it does not reach its own store:\n%s", s.log.String())
	}
	lines := strings.Split(strings.TrimSpace(s.out.String()), "\n")
	if len(lines) != 3 {
		t.Errorf("%d lines on standard output:\n%s", len(lines), s.out.String())
	}
}

func TestServeSealsAndReloads(t *testing.T) {
	store := miniredis.RunT(t)
	path := socket(t)
	file := filepath.Join(t.TempDir(), "cinch.yaml")
	write := func(more string) {
		text := fmt.Sprintf("admin: {listen: off}\ngateways:\n  - name: a\n    protocol: redis\n    listen: unix:%s\n    upstream: redis://%s\n%s",
			path, store.Addr(), more)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("    rules: [{key: \"a*\", setting: zstd-3}]\n")
	s := startServe(t, serveOptions{configFile: file})
	s.logged("gateway listens")
	c := dial(t, path) // the same connection all along
	value := strings.Repeat("a value of some length, ", 100)
	c.setSealed(store, "a1", value, true)
	c.setSealed(store, "b1", value, false)

	write("    rules: [{key: \"b*\", setting: lz4}]\n")
	s.reload("configuration reloaded")
	c.setSealed(store, "a2", value, false)
	c.setSealed(store, "b2", value, true)
	if got := c.do("GET", "a1"); got != value {
		t.Errorf("a value compressed by an earlier rule can't be read: %q", got)
	}

	write("    rules: [{key: \"c*\", settng: lz4}]\n") // a mistake changes nothing
	s.reload("did you mean")
	c.setSealed(store, "b3", value, true)

	write("    max_seal: 1MiB\n    enabled: false\n    rules: [{key: \"b*\", setting: lz4}]\n")
	s.reload("configuration reloaded")
	if log := s.log.String(); !strings.Contains(log, "needs a restart") || !strings.Contains(log, "gateways[a].max_seal") {
		t.Errorf("what can't change is not logged:\n%s", log)
	}
	c.setSealed(store, "b4", value, false)
	if got := c.do("GET", "b3"); got != value {
		t.Errorf("off, and a compressed value can't be read: %q", got)
	}
	s.stop(os.Interrupt)
}

// setSealed sets a value, checks whether the store has it compressed, and gets it.
func (c *client) setSealed(store *miniredis.Miniredis, key, value string, want bool) {
	c.t.Helper()
	if got := c.do("SET", key, value); got != "+OK" {
		c.t.Errorf("SET: %s", got)
	}
	stored, err := store.Get(key)
	if err != nil {
		c.t.Fatal(err)
	}
	if envelope.IsSealed([]byte(stored)) != want {
		c.t.Errorf("%s sealed: %v", key, !want)
	}
	if got := c.do("GET", key); got != value {
		c.t.Errorf("GET: %q", got)
	}
}

func TestServeForce(t *testing.T) {
	store := miniredis.RunT(t)
	path := socket(t)
	s := startServe(t, serveOptions{redis: []string{"unix:" + path + "=redis://" + store.Addr()}, overrides: adminOff(), testForce: true})
	s.logged("gateway listens")
	c := dial(t, path)
	for key, value := range map[string]string{"tiny": "x", "number": "12"} {
		c.do("SET", key, value)
		stored, err := store.Get(key)
		if err != nil || envelope.IsSealed([]byte(stored)) != (key == "tiny") {
			t.Errorf("%s is stored as %q, %v", key, stored, err)
		}
	}
	s.stop(os.Interrupt)
}

// A client in the middle of a request prolongs a drain; a second signal ends it.
func TestServeSecondSignal(t *testing.T) {
	store := miniredis.RunT(t)
	path := socket(t)
	s := startServe(t, serveOptions{redis: []string{"unix:" + path + "=redis://" + store.Addr()}, overrides: append(adminOff(), config.Override{From: "--drain-grace", Key: "drain_grace", Value: "1h"})})
	s.logged("gateway listens")
	c := dial(t, path)
	c.do("PING")
	c.send("BLPOP", "list", "0")
	testenv.Eventually(t, "the store has a client that waits", func() bool { return store.CurrentConnectionCount() > 0 })
	s.signals <- syscall.SIGTERM
	s.logged("draining")
	s.signals <- syscall.SIGHUP // does not count
	s.signals <- os.Interrupt
	err := s.wait()
	if exitCode(err) != exitInterrupted {
		t.Errorf("ended with %d: %v", exitCode(err), err)
	}
}

func TestServeAddressInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	free := socket(t)
	for _, o := range []serveOptions{
		{redis: []string{"unix:" + free + "=redis://127.0.0.1:1", l.Addr().String() + "=redis://127.0.0.1:1"}, overrides: adminOff()},
		{
			redis:     []string{"unix:" + free + "=redis://127.0.0.1:1"},
			overrides: []config.Override{{From: "--admin", Key: "admin.listen", Value: l.Addr().String()}},
		},
	} {
		var log logBuffer
		err := runServe(o, make(chan os.Signal), io.Discard, &log)
		var hint interface{ Hint() string }
		if !errors.Is(err, syscall.EADDRINUSE) || exitCode(err) != exitFailed || !errors.As(err, &hint) {
			t.Errorf("%v", err)
		}
		if _, err := os.Stat(free); err == nil {
			t.Error("the other gateway's socket is left behind")
		}
	}
}

func TestServeSaysWhenUpstreamIsDown(t *testing.T) {
	path := socket(t)
	s := startServe(t, serveOptions{redis: []string{"unix:" + path + "=unix://" + path + ".none"}, overrides: adminOff()})
	s.logged("upstream unreachable")
	if got := dial(t, path).do("PING"); !strings.HasPrefix(got, "-ERR") {
		t.Errorf("PING: %q", got)
	}
	s.stop(os.Interrupt)
}
