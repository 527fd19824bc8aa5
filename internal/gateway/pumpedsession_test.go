package gateway

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/test/testenv"
)

// linePumps is a session that carries lines, and expects one line in reply to each of the client's.
type linePumps struct {
	*PumpedSession
	outstanding atomic.Int32
	waits       bool // when the client ends and no reply is outstanding, close the session
	panics      bool // panic at a reply
	log         testenv.Log
	stats       *Stats
	ran         chan struct{} // closed when Run has returned

	client, server net.Conn // the client's and the server's ends of the connections
	said, answered *bufio.Reader
}

func startPumps(t *testing.T, change func(*linePumps)) *linePumps {
	t.Helper()
	p := &linePumps{stats: NewStats("test", "line"), ran: make(chan struct{})}
	change(p)
	var near, up net.Conn
	near, p.client = testenv.Pipe()
	up, p.server = testenv.Pipe()
	for _, c := range []net.Conn{p.client, p.server} {
		_ = c.SetDeadline(time.Now().Add(patience))
	}
	p.said, p.answered = bufio.NewReader(p.server), bufio.NewReader(p.client)
	p.PumpedSession = NewPumpedSession(PumpedSessionConfig{
		Client: near, Upstream: up, Requests: memory.NewBudget(1 << 20).Share("test"), Replies: memory.NewBudget(1 << 20).Share("test"),
		Stall: patience, Stats: p.stats, Log: slog.New(slog.NewTextHandler(&p.log, nil)),
	})
	go func() { defer close(p.ran); p.Run(p.carryRequests, p.pumpReplies) }()
	t.Cleanup(func() { _ = p.Close(); <-p.ran })
	return p
}

func (p *linePumps) carryRequests() {
	p.pumpRequests()
	if p.waits && p.outstanding.Load() == 0 {
		_ = p.Close()
		return
	}
	p.CloseUpstreamWrite()
}

func (p *linePumps) pumpRequests() {
	in := bufio.NewReader(p.PumpedSession.Client)
	for {
		p.BeforeRequest()
		line, err := in.ReadString('\n')
		if err == nil {
			p.NoteRequest()
			p.outstanding.Add(1)
			_, err = io.WriteString(p.Upstream, line)
		}
		if err != nil && !p.ContinueAfterRead(err, p.outstanding.Load() == 0) {
			p.LogEnd(memory.FromClient, "", err)
			return
		}
	}
}

func (p *linePumps) pumpReplies() {
	in := bufio.NewReader(p.Upstream)
	for {
		line, err := in.ReadString('\n')
		switch {
		case err != nil:
			return
		case p.panics:
			panic("asked for")
		case line == "nonsense\n":
			p.LogEnd(memory.FromUpstream, "malformed", errors.New("no such reply"))
			return
		}
		_, _ = io.WriteString(p.PumpedSession.Client, line)
		p.outstanding.Add(-1)
	}
}

// say writes a line as the client or the server.
func say(t *testing.T, c net.Conn, line string) {
	t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

// hear expects the line want, or EOF if want is "".
func hear(t *testing.T, in *bufio.Reader, want string) {
	t.Helper()
	if want != "" {
		want += "\n"
	}
	got, err := in.ReadString('\n')
	if got != want || want == "" && !errors.Is(err, io.EOF) {
		t.Fatalf("%q, %v; want %q", got, err, want)
	}
}

// over waits until Run has returned, and checks that nothing is left open.
func (p *linePumps) over(t *testing.T) {
	t.Helper()
	select {
	case <-p.ran:
	case <-time.After(patience):
		t.Fatal("Run does not return")
	}
	if p.Context().Err() == nil {
		t.Error("the context has not ended")
	}
	for _, a := range []*memory.Account{p.Requests, p.Replies} {
		if !a.TryAcquire(1 << 40) { // a closed account has no limit
			t.Error("an account is open")
		}
	}
	for _, c := range []net.Conn{p.PumpedSession.Client, p.Upstream} {
		if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a connection is open: %v", err)
		}
	}
}

// A drain ends the session if no reply is outstanding.
func TestPumpsDrainIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPumps(t, func(*linePumps) {})
		say(t, p.client, "one")
		hear(t, p.said, "one")
		say(t, p.server, "1")
		hear(t, p.answered, "1")
		p.Drain()
		hear(t, p.said, "")
		_ = p.server.Close()
		p.over(t)
		hear(t, p.answered, "")
	})
}

// A drain waits for replies, and carries the requests that come meanwhile.
func TestPumpsDrainBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPumps(t, func(p *linePumps) { p.waits = true })
		say(t, p.client, "one")
		hear(t, p.said, "one")
		p.Drain()
		time.Sleep(3 * DrainPoll)
		say(t, p.client, "two")
		hear(t, p.said, "two")
		say(t, p.server, "1")
		hear(t, p.answered, "1")
		time.Sleep(3 * DrainPoll)
		say(t, p.server, "2")
		hear(t, p.answered, "2")
		p.over(t)
		hear(t, p.answered, "")
	})
}

// A drain checks once more when the session is idle: a read after its deadline does not see bytes that have
// come.
func TestPumpsDrainLooksTwice(t *testing.T) {
	near, _ := tcpPair(t)
	l := NewPumpedSession(PumpedSessionConfig{Client: near, Upstream: near, Grace: time.Hour, Log: slog.New(slog.DiscardHandler)})
	_ = near.SetReadDeadline(time.Now())
	_, late := near.Read(make([]byte, 1))
	if l.ContinueAfterRead(late, false) {
		t.Error("goes on without a drain")
	}
	l.beginDeadline = time.Time{}
	l.Drain()
	if l.ContinueAfterRead(io.EOF, false) {
		t.Error("goes on after the end")
	}
	for _, step := range []struct{ idle, requested, goesOn bool }{
		{idle: false, goesOn: true},
		{idle: true, goesOn: true},
		{idle: false, goesOn: true},
		{idle: true, goesOn: true},
		{idle: true, requested: true, goesOn: true},
		{idle: true, goesOn: false},
	} {
		if step.requested {
			l.NoteRequest()
		}
		if got := l.ContinueAfterRead(late, step.idle); got != step.goesOn {
			t.Fatalf("%+v: goes on: %v", step, got)
		}
	}
}

// A drain keeps waiting for a new client that has only logged in.
func TestPumpsDrainAfterALogin(t *testing.T) {
	near, _ := tcpPair(t)
	l := NewPumpedSession(PumpedSessionConfig{Client: near, Upstream: near, Log: slog.New(slog.DiscardHandler)})
	_ = near.SetReadDeadline(time.Now())
	_, late := near.Read(make([]byte, 1))
	l.beginDeadline = time.Now().Add(time.Hour)
	l.NoteRequest()
	l.Drain()
	for range 3 {
		if !l.ContinueAfterRead(late, true) {
			t.Fatal("ends")
		}
	}
	if l.beginDeadline = (time.Time{}); l.ContinueAfterRead(late, true) {
		t.Error("goes on when its moment is over")
	}
}

// After its grace a drain checks only once: otherwise a client that soon sends another request would delay it
// for ever.
func TestPumpsOverdueDrainLooksOnce(t *testing.T) {
	near, _ := tcpPair(t)
	l := NewPumpedSession(PumpedSessionConfig{Client: near, Upstream: near, Log: slog.New(slog.DiscardHandler)})
	_ = near.SetReadDeadline(time.Now())
	_, late := near.Read(make([]byte, 1))
	l.beginDeadline = time.Time{}
	l.Drain()
	for _, idle := range []bool{false, true} {
		if got := l.ContinueAfterRead(late, idle); got == idle {
			t.Errorf("idle %v: goes on: %v", idle, got)
		}
	}
}

// A drain that comes before Run is not forgotten.
func TestPumpsDrainBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := testenv.Pipe()
		up, server := testenv.Pipe()
		p := &linePumps{waits: true}
		p.PumpedSession = NewPumpedSession(PumpedSessionConfig{Client: near, Upstream: up, Log: slog.New(slog.DiscardHandler)})
		p.Drain()
		if !p.Draining() {
			t.Error("does not drain")
		}
		p.Run(p.carryRequests, p.pumpReplies)
		_, _ = far.Close(), server.Close()
	})
}

// Replies that are outstanding when the client ends are delivered.
func TestPumpsClientEndsFirst(t *testing.T) {
	for _, waits := range []bool{false, true} {
		p := startPumps(t, func(p *linePumps) { p.waits = waits })
		say(t, p.client, "one")
		hear(t, p.said, "one")
		_ = CloseWrite(p.client)
		hear(t, p.said, "") // the EOF is passed on at once
		say(t, p.server, "1")
		hear(t, p.answered, "1")
		if !p.Ended() {
			t.Error("the client has not ended")
		}
		_ = p.server.Close()
		p.over(t)
	}
}

// If no reply is outstanding, the client's end ends the session.
func TestPumpsClientEndsIdle(t *testing.T) {
	p := startPumps(t, func(p *linePumps) { p.waits = true })
	_ = CloseWrite(p.client)
	p.over(t)
	if p.Ended() {
		t.Error("an end was passed on")
	}
	hear(t, p.said, "")
}

// Replies that the server sent before its end are delivered, then the client's connection is closed.
func TestPumpsServerEndsFirst(t *testing.T) {
	p := startPumps(t, func(*linePumps) {})
	say(t, p.client, "one")
	hear(t, p.said, "one")
	say(t, p.server, "1")
	_ = p.server.Close()
	hear(t, p.answered, "1")
	hear(t, p.answered, "")
	p.over(t)
	if p.RepliesDone() == nil {
		t.Fatal("no channel")
	}
	<-p.RepliesDone()
}

// A panic of the reply pump ends the session, and is counted and logged.
func TestPumpsPanicInReplies(t *testing.T) {
	p := startPumps(t, func(p *linePumps) { p.panics = true })
	say(t, p.client, "one")
	hear(t, p.said, "one")
	say(t, p.server, "1")
	p.over(t)
	if n := p.stats.Snapshot().Errors["panic"]; n != 1 || p.log.Count("asked for") == 0 {
		t.Errorf("%d panics counted, log %s", n, p.log.String())
	}
}

// A panic of the request pump leaves nothing open, though the reply pump was waiting.
func TestPumpsPanicInRequests(t *testing.T) {
	near, far := tcpPair(t)
	up, server := tcpPair(t)
	p := &linePumps{}
	p.PumpedSession = NewPumpedSession(PumpedSessionConfig{Client: near, Upstream: up, Requests: memory.NewBudget(1 << 20).Share("test"), Replies: memory.NewBudget(1 << 20).Share("test"), Log: slog.New(slog.DiscardHandler)})
	p.ran = make(chan struct{})
	go func() {
		defer close(p.ran)
		defer func() { _ = recover() }()
		p.Run(func() { panic("asked for") }, p.pumpReplies)
	}()
	p.over(t)
	<-p.RepliesDone()
	_, _ = far.Close(), server.Close()
}

// Close may be called several times, from several goroutines, and runs OnClose once.
func TestPumpsCloseTwice(t *testing.T) {
	var closed atomic.Int32
	p := startPumps(t, func(*linePumps) {})
	p.OnClose = func() { closed.Add(1) }
	done := make(chan error)
	for range 4 {
		go func() { done <- p.Close() }()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	p.over(t)
	if n := closed.Load(); n != 1 {
		t.Errorf("OnClose ran %d times", n)
	}
}

// A peer that breaks the protocol is logged and counted by its class.
func TestPumpsLogEnd(t *testing.T) {
	p := startPumps(t, func(*linePumps) {})
	say(t, p.server, "nonsense")
	hear(t, p.answered, "")
	p.over(t)
	errs := p.stats.Snapshot().Errors
	if errs["upstream_malformed"] != 1 || len(errs) != 1 {
		t.Errorf("counted %v", errs)
	}
	if n := strings.Count(p.log.String(), "\n"); n != 1 || p.log.Count("upstream sent invalid data") != 1 {
		t.Errorf("log %s", p.log.String())
	}
}
