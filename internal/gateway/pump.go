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

	"github.com/cinch-layer/cinch/internal/panics"
)

// Life is the life of a session that has two pumps, one that carries requests and one that
// carries replies, each in a goroutine of its own:
//
//	Run ──> requests ── the client's end, an error, idle in a drain ──> PassEnd or Close ──┐
//	 └────> replies  ── the server's end, an error ──> client closed, Dead ────────────────┴──> Close
//
// The end of the replies is the end of the session: all that the server has said has been carried, so
// the client's connection is closed, which ends the request pump too. The end of the requests is not:
// the server may have replies to send. What it means is for the protocol to say, at the end of its
// request pump: after PassEnd the server hears that nothing more comes, and its replies are let
// through until it closes; after Close nothing is. Run waits for the replies in both cases.
//
// Drain asks the request pump to end at the next place between requests where no reply is
// outstanding. The pump calls BeforeRequest before it waits for a request, Requested when one has
// come, and lets GoesOn decide about a read that has failed. A client that has just come has a moment for its
// login and a first request. Overdue says that a client that only waits, for what may never come, is not waited for any more.
//
// Close cuts both connections, from any goroutine and at any time. It is also what follows a panic, in
// either pump, and the end of the patience of a Server's Shutdown. The judge cuts them too, when a peer holds
// memory that others wait for; each direction has an account with it.
type Life struct {
	Client, Upstream  net.Conn
	Requests, Replies *Account // nil: no bound

	// OnClose is called by the first Close, when it has cut the connections; nil: nothing. It is
	// set before Run.
	OnClose func()

	stall time.Duration
	grace time.Duration
	fresh time.Time // until when a drain waits for the first request
	stats *Stats
	log   *slog.Logger

	ctx      context.Context
	cancel   context.CancelFunc
	dead     chan struct{}
	closing  sync.Once
	draining atomic.Bool
	overdue  atomic.Int64 // when, in Unix nanoseconds; 0: not draining
	ended    atomic.Bool
	looked   bool      // of the request pump: draining, and idle when a read last found nothing
	lookAt   time.Time // likewise: draining, when a read is interrupted
}

// LifeConfig is what a Life is made of.
type LifeConfig struct {
	Client, Upstream  net.Conn
	Requests, Replies *Share        // nil: no bound
	Stall             time.Duration // the patience with a peer that others wait for
	Grace             time.Duration // of a drain, for a client that only waits
	Begin             time.Duration // for logging in and the first request, even in a drain; 0: BeginPatience
	Stats             *Stats
	Log               *slog.Logger
}

// NewLife returns the life of a session that has not begun.
func NewLife(c LifeConfig) *Life {
	l := &Life{Client: c.Client, Upstream: c.Upstream, stall: c.Stall, grace: c.Grace, fresh: time.Now().Add(cmp.Or(c.Begin, BeginPatience)), stats: c.Stats, log: c.Log, dead: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.Requests = l.account(c.Requests, c.Client, c.Upstream)
	l.Replies = l.account(c.Replies, c.Upstream, c.Client)
	return l
}

// account is for what is under way in one direction.
func (l *Life) account(of *Share, from, to net.Conn) *Account {
	return of.Account(PayerOf(l.Client), &Stream{From: from, To: to, Client: l.Client, Limit: l.stall, Stats: l.stats, Log: l.log})
}

// Run runs both pumps until both have ended, and closes everything.
func (l *Life) Run(requests, replies func()) {
	defer l.Requests.Close()
	defer l.Replies.Close()
	defer l.Close()
	go l.carryReplies(replies)
	requests()
	<-l.dead
}

func (l *Life) carryReplies(replies func()) {
	defer close(l.dead)
	defer l.Catch()
	// A server whose replies nobody reads may stop reading too, in the middle of a request.
	defer func() { _ = l.Upstream.SetWriteDeadline(time.Now().Add(l.stall)) }()
	defer l.Client.Close() // unblocks the request pump
	replies()
	if l.Ended() { // nobody else reads
		l.Part()
	}
}

// Catch, when deferred in another goroutine of the session, ends the session after a panic; see CatchPanic.
func (l *Life) Catch() {
	if p := recover(); p != nil {
		panics.Report(l.log, l.stats, p)
		_ = l.Close()
	}
}

// Close cuts both connections, and ends Context.
func (l *Life) Close() error {
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

// Context ends with the session.
func (l *Life) Context() context.Context { return l.ctx }

// Cancel ends Context before the session, so that nobody waits for memory any more.
func (l *Life) Cancel() { l.cancel() }

// Dead is closed when the reply pump has ended.
func (l *Life) Dead() <-chan struct{} { return l.dead }

// PassEnd tells the server that the client has ended its side.
func (l *Life) PassEnd() {
	l.End()
	_ = CloseWrite(l.Upstream)
}

// End notes that the client has ended its side, or is about to: what the server closes from now
// on was not lost.
func (l *Life) End() { l.ended.Store(true) }

// Ended reports whether the client has ended its side.
func (l *Life) Ended() bool { return l.ended.Load() }

// DrainPoll is how often a draining session looks whether it is idle.
const DrainPoll = 20 * time.Millisecond

// Drain wakes the request pump, which ends at the next place between requests where no reply is
// outstanding.
func (l *Life) Drain() {
	l.BeginDrain()
	_ = l.Client.SetReadDeadline(time.Now())
}

// BeginDrain is the part of Drain that wakes nobody.
func (l *Life) BeginDrain() {
	l.overdue.Store(time.Now().Add(l.grace).UnixNano())
	l.draining.Store(true)
}

// Overdue reports whether the session drains, and its grace is over.
func (l *Life) Overdue() bool {
	return l.draining.Load() && time.Now().UnixNano() >= l.overdue.Load()
}

// Draining reports whether Drain was called.
func (l *Life) Draining() bool { return l.draining.Load() }

// BeforeRequest bounds the wait for the next request while the session drains.
func (l *Life) BeforeRequest() {
	if !l.draining.Load() {
		return
	}
	if now := time.Now(); !now.Before(l.lookAt) { // however many requests come in between
		l.lookAt = now.Add(DrainPoll)
	}
	_ = l.Client.SetReadDeadline(l.lookAt)
}

// partTime is how long a client that was busy has to take notice of its end.
const partTime = 200 * time.Millisecond

// Part ends our side of the client's connection after the grace of a drain, and reads what the client may have sent in this
// moment: a close would be a reset then, and could cost it the last reply. It belongs to whoever reads from the client.
func (l *Life) Part() {
	if !l.Overdue() || CloseWrite(l.Client) != nil {
		return
	}
	_ = l.Client.SetReadDeadline(time.Now().Add(partTime))
	_, _ = io.CopyN(io.Discard, l.Client, lingerBytes)
}

// Requested notes that a request has come.
func (l *Life) Requested() { l.looked = false }

// GoesOn decides about a failed read of a request. Only a drain interrupts reads for nothing: it goes
// on while the session is busy or has just begun, and once more when it is idle, since a read after its deadline does not
// look whether bytes have come. After the grace one look is enough, or a client that is never idle for long would be cut at last.
func (l *Life) GoesOn(err error, idle bool) bool {
	if !l.draining.Load() || !errors.Is(err, os.ErrDeadlineExceeded) || idle && (l.looked || l.Overdue()) && time.Now().After(l.fresh) {
		return false
	}
	l.looked = idle
	return true
}

// LogEnd says once why the session was broken off, if not in the usual way. class names the
// violation of the protocol; an ordinary end has none.
func (l *Life) LogEnd(who Peer, class string, err error) {
	LogEnd(l.log, l.stats, l.Client, who, class, err)
}
