package gateway

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/system/panics"
)

// PumpedSession runs a session with two pumps, one that carries requests and one that carries replies, each in a
// goroutine of its own:
//
//	Run ──> requests ── the client's end, an error, idle in a drain ──> CloseUpstreamWrite or Close ──┐
//	 └────> replies  ── the server's end, an error ──> client closed, RepliesDone ────────────────────┴──> Close
//
// When the reply pump ends, the session ends: all replies have been carried, so the client's connection is
// closed, which ends the request pump too. The end of the request pump does not end the session, because the server
// may still have replies to send. The protocol decides what its request pump calls last: after CloseUpstreamWrite
// the server reads an EOF and its replies are carried until it closes, after Close they are not. Run waits for the
// reply pump in both cases.
//
// Drain asks the request pump to end between two requests when no reply is outstanding. The pump calls
// BeforeRequest before it waits for a request, NoteRequest when one has come, and ContinueAfterRead after a
// failed read. A new client has PumpedSessionConfig.Begin as time for its login and a first request. Once Overdue
// reports true, the drain no longer waits for clients that wait for something that may never come.
//
// Close cuts both connections, from any goroutine and at any time. It is also called after a panic in either
// pump, and when the context of a Server's Shutdown ends. The stall detector (memory/stall.go) cuts them too if a
// peer holds memory that others wait for; each direction has an account.
type PumpedSession struct {
	Client, Upstream  net.Conn
	Requests, Replies *memory.Account // nil: no limit

	// OnClose is called by the first Close after it has cut the connections; may be nil. It must be set
	// before Run.
	OnClose func()

	stall         time.Duration
	grace         time.Duration
	beginDeadline time.Time // a drain waits until then for the first request
	stats         *Stats
	log           *slog.Logger

	ctx         context.Context
	cancel      context.CancelFunc
	repliesDone chan struct{}
	closing     sync.Once
	draining    atomic.Bool
	graceEnd    atomic.Int64 // end of the drain's grace, in Unix nanoseconds; 0: not draining
	clientEnded atomic.Bool
	foundIdle   bool      // the drain has found the session idle since the last request; belongs to the request pump
	nextPoll    time.Time // when to interrupt the next read while draining; belongs to the request pump
}

// PumpedSessionConfig configures a PumpedSession.
type PumpedSessionConfig struct {
	Client, Upstream  net.Conn
	Requests, Replies *memory.Share // nil: no limit
	Stall             time.Duration // how long a peer may be slower than memory.MinPace while others wait
	Grace             time.Duration // how long a drain waits for a client that is itself waiting
	Begin             time.Duration // time for the login and the first request, even in a drain; 0: BeginPatience
	Stats             *Stats
	Log               *slog.Logger
}

// NewPumpedSession returns a PumpedSession that has not begun; Run starts it.
func NewPumpedSession(c PumpedSessionConfig) *PumpedSession {
	l := &PumpedSession{Client: c.Client, Upstream: c.Upstream, stall: c.Stall, grace: c.Grace, beginDeadline: time.Now().Add(cmp.Or(c.Begin, BeginPatience)), stats: c.Stats, log: c.Log, repliesDone: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.Requests = l.account(c.Requests, c.Client, c.Upstream)
	l.Replies = l.account(c.Replies, c.Upstream, c.Client)
	return l
}

// account returns the account for the messages of one direction.
func (l *PumpedSession) account(of *memory.Share, from, to net.Conn) *memory.Account {
	return of.Account(BudgetAddress(l.Client), &Stream{From: from, To: to, Client: l.Client, Limit: l.stall, Stats: l.stats, Log: l.log})
}

// Run runs both pumps until both have ended, then closes the connections and the accounts.
func (l *PumpedSession) Run(requests, replies func()) {
	defer l.Requests.Close()
	defer l.Replies.Close()
	defer l.Close()
	go l.runReplies(replies)
	requests()
	<-l.repliesDone
}

func (l *PumpedSession) runReplies(replies func()) {
	defer close(l.repliesDone)
	defer l.Catch()
	// Replies are no longer read, so the server may stop reading too, in the middle of a request.
	defer func() { _ = l.Upstream.SetWriteDeadline(time.Now().Add(l.stall)) }()
	defer l.Client.Close() // unblocks the request pump
	replies()
	if l.Ended() { // the request pump no longer reads
		l.LingerClose()
	}
}

// Catch, when deferred in another goroutine of the session, ends the session after a panic; see CatchPanic.
func (l *PumpedSession) Catch() {
	if p := recover(); p != nil {
		panics.Report(l.log, l.stats, p)
		_ = l.Close()
	}
}

// Close cuts both connections, and ends Context.
func (l *PumpedSession) Close() error {
	l.closing.Do(func() {
		l.cancel()
		_ = Abort(l.Client)
		_ = Abort(l.Upstream)
		if l.OnClose != nil {
			l.OnClose()
		}
	})
	return nil
}

// Context returns a context that ends with the session.
func (l *PumpedSession) Context() context.Context { return l.ctx }

// Cancel ends Context while the session continues, so that the pumps stop waiting for memory.
func (l *PumpedSession) Cancel() { l.cancel() }

// RepliesDone returns a channel that is closed when the reply pump has ended.
func (l *PumpedSession) RepliesDone() <-chan struct{} { return l.repliesDone }

// CloseUpstreamWrite closes the upstream connection for writing: the client has ended its side.
func (l *PumpedSession) CloseUpstreamWrite() {
	l.End()
	_ = CloseWrite(l.Upstream)
}

// End records that the client has ended its side, or is about to. If the server closes its side later, it is not
// considered lost.
func (l *PumpedSession) End() { l.clientEnded.Store(true) }

// Ended reports whether the client has ended its side.
func (l *PumpedSession) Ended() bool { return l.clientEnded.Load() }

// DrainPoll is the interval at which a draining session checks whether it is idle.
const DrainPoll = 20 * time.Millisecond

// Drain wakes the request pump, which ends between two requests when no reply is outstanding.
func (l *PumpedSession) Drain() {
	l.BeginDrain()
	_ = l.Client.SetReadDeadline(time.Now())
}

// BeginDrain is Drain without waking the request pump.
func (l *PumpedSession) BeginDrain() {
	l.graceEnd.Store(time.Now().Add(l.grace).UnixNano())
	l.draining.Store(true)
}

// Overdue reports whether the session drains and the drain's grace is over.
func (l *PumpedSession) Overdue() bool {
	return l.draining.Load() && time.Now().UnixNano() >= l.graceEnd.Load()
}

// Draining reports whether Drain was called.
func (l *PumpedSession) Draining() bool { return l.draining.Load() }

// BeforeRequest limits the wait for the next request while the session drains.
func (l *PumpedSession) BeforeRequest() {
	if !l.draining.Load() {
		return
	}
	if now := time.Now(); !now.Before(l.nextPoll) { // requests in between do not postpone the poll
		l.nextPoll = now.Add(DrainPoll)
	}
	_ = l.Client.SetReadDeadline(l.nextPoll)
}

// lingerCloseTimeout limits the time that LingerClose waits for a client to read EOF and close.
const lingerCloseTimeout = 200 * time.Millisecond

// LingerClose closes the client's connection for writing after the grace of a drain, and reads and drops what the
// client still sends: closing a connection with unread bytes would reset it, and could cost the client the last
// reply. It must be called by the goroutine that reads from the client.
func (l *PumpedSession) LingerClose() {
	if !l.Overdue() || CloseWrite(l.Client) != nil {
		return
	}
	_ = l.Client.SetReadDeadline(time.Now().Add(lingerCloseTimeout))
	_, _ = io.CopyN(io.Discard, l.Client, lingerBytes)
}

// NoteRequest records that a request has come.
func (l *PumpedSession) NoteRequest() { l.foundIdle = false }

// ContinueAfterRead reports whether the request pump goes on after it failed to read a request with err. idle means
// that the session has nothing to finish. The pump ends on every error except an interruption by a drain. Then it goes
// on while the session is busy or has just begun. When it is idle it goes on once more, since a read after its deadline
// does not check whether bytes have come. After the grace it ends at the first idle check: a client that is never idle
// for long would otherwise keep the drain waiting.
func (l *PumpedSession) ContinueAfterRead(err error, idle bool) bool {
	if !l.draining.Load() || !errors.Is(err, os.ErrDeadlineExceeded) || idle && (l.foundIdle || l.Overdue()) && time.Now().After(l.beginDeadline) {
		return false
	}
	l.foundIdle = idle
	return true
}

// LogEnd logs why the session ended, unless it ended in the usual way; see the function LogEnd.
func (l *PumpedSession) LogEnd(peer memory.Peer, class string, err error) {
	LogEnd(l.log, l.stats, l.Client, peer, class, err)
}
