package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

// patience limits the wait for events that must happen; no test asserts it.
const patience = 2 * time.Minute

// lineSession answers each line with the same line. "hold" is answered when release is closed, "panic" panics, and
// "panic-elsewhere" panics in another goroutine of the session.
type lineSession struct {
	conn    net.Conn
	release chan struct{}
	server  *Server

	mu      sync.Mutex
	busy    bool
	holding bool // has read "hold"
	drained int
	closed  int
	ran     chan struct{} // closed when Run has returned
}

func (s *lineSession) Run() {
	defer close(s.ran)
	defer s.conn.Close()
	lines := bufio.NewScanner(s.conn)
	for lines.Scan() {
		if !s.setBusy(true) {
			return
		}
		s.answer(lines.Text())
		if !s.setBusy(false) {
			return
		}
	}
}

func (s *lineSession) answer(line string) {
	switch line {
	case "hold":
		s.mu.Lock()
		s.holding = true
		s.mu.Unlock()
		<-s.release
	case "panic":
		panic("asked for")
	case "panic-elsewhere":
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer CatchPanic(s.server.log(), s.server.Stats, func() { s.conn.Close() })
			panic("asked for")
		}()
		<-done
	}
	_, _ = io.WriteString(s.conn, line+"\n")
}

// setBusy sets whether the session is busy, and reports whether it may go on.
func (s *lineSession) setBusy(busy bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = busy
	return s.drained == 0
}

// Drain interrupts an idle session; a busy one ends after its answer.
func (s *lineSession) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drained++
	if !s.busy {
		_ = s.conn.SetReadDeadline(time.Unix(1, 0))
	}
}

func (s *lineSession) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	return nil
}

// harness is a server of lineSessions on a loopback port.
type harness struct {
	*Server
	addr   string
	served chan error

	mu       sync.Mutex
	sessions []*lineSession
	release  chan struct{}
}

func startServer(t *testing.T, s *Server) *harness {
	t.Helper()
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return startServerOn(t, s, l)
}

func startServerOn(t *testing.T, s *Server, l net.Listener) *harness {
	t.Helper()
	h := &harness{Server: s, addr: l.Addr().String(), served: make(chan error, 1), release: make(chan struct{})}
	if s.Stats == nil {
		s.Stats = NewStats("test", "line")
	}
	if s.NewSession == nil {
		s.NewSession = h.newSession
	}
	go func() { h.served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Shutdown(ctx)
	})
	return h
}

func (h *harness) newSession(c net.Conn) Session {
	s := &lineSession{conn: c, release: h.release, server: h.Server, ran: make(chan struct{})}
	h.mu.Lock()
	h.sessions = append(h.sessions, s)
	h.mu.Unlock()
	return s
}

// testClient is one line-speaking client.
type testClient struct {
	net.Conn
	t     *testing.T
	lines *bufio.Reader
}

func newTestClient(t *testing.T, c net.Conn) *testClient {
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return &testClient{Conn: c, t: t, lines: bufio.NewReader(c)}
}

func (h *harness) dial(t *testing.T) *testClient {
	t.Helper()
	c, err := net.Dial("tcp", h.addr)
	if err != nil {
		t.Fatal(err)
	}
	return newTestClient(t, c)
}

func (c *testClient) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *testClient) expect(line string) {
	c.t.Helper()
	got, err := c.lines.ReadString('\n')
	if err != nil || got != line+"\n" {
		c.t.Fatalf("read %q, %v; want %q", got, err, line)
	}
}

func (c *testClient) expectEnd() {
	c.t.Helper()
	if got, err := c.lines.ReadString('\n'); got != "" || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("read %q, %v; want the end", got, err)
	}
}

func (c *testClient) echo(line string) {
	c.t.Helper()
	c.send(line)
	c.expect(line)
}

func shutdownContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func TestShutdownLetsTheBusyFinishAndEndsTheIdle(t *testing.T) {
	h := startServer(t, &Server{})
	idle, busy := h.dial(t), h.dial(t)
	idle.echo("hello")
	busy.echo("hello")
	busy.send("hold")
	testenv.Eventually(t, "a busy session", func() bool { return h.countHolding() == 1 })

	result := make(chan error, 1)
	go func() { result <- h.Shutdown(shutdownContext(t)) }()
	idle.expectEnd()
	if err := <-h.served; err != nil {
		t.Fatalf("Serve: %v", err)
	}
	if _, err := net.Dial("tcp", h.addr); err == nil {
		t.Fatal("still accepting")
	}
	select {
	case err := <-result:
		t.Fatalf("Shutdown did not wait for the busy session: %v", err)
	default:
	}
	close(h.release)
	busy.expect("hold")
	busy.expectEnd()
	if err := <-result; err != nil {
		t.Fatalf("Shutdown: %v", err)
	}
	if n := h.Stats.Snapshot().Connections.Open; n != 0 {
		t.Errorf("%d connections open after Shutdown", n)
	}
	for _, s := range h.sessions {
		if s.drained != 1 || s.closed != 0 {
			t.Errorf("drained %d times, closed %d times; want 1, 0", s.drained, s.closed)
		}
	}
}

// countHolding counts the sessions that are certainly busy: one that has just answered may still look busy.
func (h *harness) countHolding() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, s := range h.sessions {
		s.mu.Lock()
		if s.holding {
			n++
		}
		s.mu.Unlock()
	}
	return n
}

func TestShutdownOutOfPatienceClosesEverything(t *testing.T) {
	h := startServer(t, &Server{})
	busy := h.dial(t)
	busy.send("hold")
	testenv.Eventually(t, "a busy session", func() bool { return h.countHolding() == 1 })
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := h.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("Shutdown: %v", err)
	}
	busy.expectEnd()
	s := h.sessions[0]
	s.mu.Lock()
	closed, drained := s.closed, s.drained
	s.mu.Unlock()
	if closed != 1 {
		t.Errorf("session closed %d times, want 1", closed)
	}
	close(h.release)
	if err := h.Shutdown(shutdownContext(t)); err != nil {
		t.Fatalf("second Shutdown: %v", err)
	}
	if drained > 1 {
		t.Errorf("drained %d times", drained)
	}
}

func TestShutdownDuringNewSession(t *testing.T) {
	entered, resume := make(chan struct{}), make(chan struct{})
	session := &lineSession{ran: make(chan struct{})}
	h := startServer(t, &Server{NewSession: func(c net.Conn) Session {
		close(entered)
		<-resume
		session.conn = c
		return session
	}})
	h.dial(t)
	<-entered
	result := make(chan error, 1)
	go func() { result <- h.Shutdown(shutdownContext(t)) }()
	<-h.served
	close(resume)
	if err := <-result; err != nil {
		t.Fatalf("Shutdown: %v", err)
	}
	if session.drained != 1 {
		t.Errorf("drained %d times, want 1", session.drained)
	}
}

func TestServeAfterShutdown(t *testing.T) {
	s := &Server{}
	if err := s.Shutdown(shutdownContext(t)); err != nil {
		t.Fatal(err)
	}
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); err != nil {
		t.Fatalf("Serve: %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("listener not closed: %v", err)
	}
}

func TestMaxConns(t *testing.T) {
	h := startServer(t, &Server{MaxConns: 2, Refusal: []byte("-too many\n")})
	first, second := h.dial(t), h.dial(t)
	first.echo("a")
	second.echo("b")
	third := h.dial(t)
	third.expect("-too many")
	third.expectEnd()
	got := h.Stats.Snapshot().Connections
	if want := (Connections{Open: 2, Total: 2, Rejected: 1}); got != want {
		t.Errorf("connections %+v, want %+v", got, want)
	}
	first.Close()
	testenv.Eventually(t, "a free place", func() bool { return h.Stats.Snapshot().Connections.Open == 1 })
	h.dial(t).echo("c")
}

func TestPanicEndsOnlyItsSession(t *testing.T) {
	for _, where := range []string{"panic", "panic-elsewhere"} {
		t.Run(where, func(t *testing.T) {
			var log bytes.Buffer
			h := startServer(t, &Server{Log: slog.New(slog.NewTextHandler(&log, nil))})
			bystander, victim := h.dial(t), h.dial(t)
			bystander.echo("a")
			victim.send(where)
			victim.expectEnd()
			bystander.echo("b")
			h.dial(t).echo("c")
			// The connection is closed before the panic is counted.
			testenv.Eventually(t, "one panic is counted", func() bool { return h.Stats.Snapshot().Errors["panic"] == 1 })
			if err := h.Shutdown(shutdownContext(t)); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(log.String(), "asked for") || !strings.Contains(log.String(), "answer") {
				t.Errorf("no panic with its stack in the log:\n%s", log.String())
			}
		})
	}
}

// failingListener returns each of its errors before it accepts.
type failingListener struct {
	net.Listener
	errs []error
}

func (l *failingListener) Accept() (net.Conn, error) {
	if len(l.errs) == 0 {
		return l.Listener.Accept()
	}
	err := l.errs[0]
	l.errs = l.errs[1:]
	return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", err)}
}

func TestAcceptShortageIsWaitedOut(t *testing.T) {
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	shortages := []error{syscall.EMFILE, syscall.ENFILE, syscall.ECONNABORTED}
	h := startServerOn(t, &Server{}, &failingListener{l, shortages})
	h.dial(t).echo("still here")
	if n := h.Stats.Snapshot().Errors["accept"]; n != uint64(len(shortages)) {
		t.Errorf("%d accept errors counted, want %d", n, len(shortages))
	}
}

func TestAcceptOnBrokenListener(t *testing.T) {
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := startServerOn(t, &Server{Name: "cache"}, &failingListener{l, []error{syscall.EBADF}})
	err = <-h.served
	if !errors.Is(err, syscall.EBADF) || !strings.Contains(err.Error(), "cache") {
		t.Errorf("Serve: %v", err)
	}
}

func TestShutdownInterruptsAcceptPause(t *testing.T) {
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	errs := make([]error, 1000) // more than Serve could use up in the test
	for i := range errs {
		errs[i] = syscall.EMFILE
	}
	h := startServerOn(t, &Server{}, &failingListener{l, errs})
	testenv.Eventually(t, "a failure", func() bool { return h.Stats.Snapshot().Errors["accept"] > 0 })
	if err := h.Shutdown(shutdownContext(t)); err != nil {
		t.Fatal(err)
	}
	if err := <-h.served; err != nil {
		t.Fatalf("Serve: %v", err)
	}
}

// A client that is still sending when it is refused can read the reason.
func TestRefusedClientReadsTheReason(t *testing.T) {
	h := startServer(t, &Server{NewSession: func(c net.Conn) Session {
		_, _ = io.WriteString(c, "go away\n")
		return nil
	}})
	c := h.dial(t)
	if got, err := c.lines.ReadString('\n'); err != nil || got != "go away\n" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := c.lines.ReadString('\n'); err != io.EOF { // the server has closed for writing
		t.Errorf("%q, %v", got, err)
	}
	for range 3 { // the first write to a closed socket may pass
		if _, err := io.WriteString(c, "a request\n"); err != nil {
			t.Fatalf("a client that sends is cut off: %v", err)
		}
	}
	_ = c.Close()
	testenv.Eventually(t, "no connection", func() bool { return h.Stats.Snapshot().Connections.Open == 0 })
}

func TestNilSessionClosesTheConnection(t *testing.T) {
	h := startServer(t, &Server{NewSession: func(net.Conn) Session { return nil }})
	c := h.dial(t)
	c.expectEnd()
	_ = c.Close() // ends linger early
	testenv.Eventually(t, "no connection", func() bool { return h.Stats.Snapshot().Connections.Open == 0 })
}
