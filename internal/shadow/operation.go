package shadow

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/shadow/plans"
	"github.com/cinch-layer/cinch/internal/shadow/usage"
)

// The targets, by their place in arrays.
const (
	control = iota
	test
	targets
)

// Kind is what an operation does with data.
type Kind uint8

// Kinds of operations.
const (
	State Kind = iota // of the connection: always mirrored, never judged
	Read
	Write
)

// String is the word that reports use.
func (k Kind) String() string { return [...]string{"state", "read", "write"}[k] }

// Check says how the answers of the targets are compared.
type Check uint8

// Checks.
const (
	Exact   Check = iota // the answers are equal
	Success              // both succeed or both fail: the answer differs by nature
)

// Operation is a request of a client and what production answered. A Reader makes it; it is
// not changed once it is submitted, but for what the targets answered.
type Operation struct {
	Kind  Kind
	Check Check
	// Name is the fingerprint: operations of one name are expected to cost alike. Readers keep
	// the number of names small.
	Name string
	// Keys are what the operation touches. What touches a key touches its parts: see Part. Whole
	// operations touch everything.
	Keys  []string
	Whole bool
	// Uses are keys that it changes even if it is a Read, such as the cursor that it moves.
	Uses []string

	Request []byte // as targets get it; the operation's own
	Replies int    // to expect; 0 means 1
	Form    uint8  // of the answer, for the Protocol's own use
	Own     any    // for the Protocol's own use
	Example any    // what an Explainer explains: one of each name is kept, in memory. nil: it can't
	// Blocks marks what may wait at a target for an operation of another connection. Its latency says
	// nothing, and what comes behind it waits for it no longer than Config.Wait.
	Blocks bool
	// Untimed marks what is the mirror's own: its latency is nobody's.
	Untimed bool
	// Locks marks what may wait at a target for a lock that another connection has. It takes a Looker.
	Locks bool
	// Woken marks what waited in production for an operation of another connection, whose answer
	// may come after its own.
	Woken bool
	// Follows is what the operation makes no sense without, such as the query whose cursor it reads: if the rate
	// leaves that out, it is left out too.
	Follows *Operation
	// Left is why the operation is not sent, if it is not: it is counted alone.
	Left string
	// Snapshot marks a read that sees what was there when it began, so that what comes behind need not wait for its
	// end. It takes a Looker. A target that plans it may have a snapshot for that alone: answers that differ then count as not in order.
	Snapshot bool
	// Redefines marks what reads that have their snapshot see, too, such as DROP and TRUNCATE: it waits for their ends.
	Redefines bool
	// Keep marks what changes its connection too, such as a statement that is prepared: a read is mirrored whatever the share of the
	// reads is.
	Keep bool

	// Instead says why targets get this and not what the client sent: it is counted as Left is.
	Instead string

	// Expected is how many bytes production's answer has: targets' are held in about as many.
	Expected int64
	// Production's answer. It is Lost where targets are asked otherwise than production was.
	Production Answer

	conn    uint64 // of the client's connection
	number  uint64 // by completion in production
	answers [targets]Answer
	legs    [targets]leg
	left    atomic.Int32         // targets that have not answered
	stopped atomic.Bool          // it was seen to wait for another connection's
	passed  atomic.Bool          // a target went on with a write before its end, though nobody knows that it has its last snapshot
	forced  [targets]atomic.Bool // a target did not wait for all that comes before
	size    int64                // in the mirror's bound
	skipped bool                 // the rate leaves it out
}

// Part stands in a key between what it is part of and its own name.
const Part = "\x00"

// Answer is what became of an operation somewhere.
type Answer struct {
	Digest  uint64 // of the answer, in the form in which answers are compared
	Error   string // its code, when the answer is an error
	Missing bool   // the answer says that there is nothing
	Bare    bool   // it has neither data nor a number of rows, as that of a COMMIT: it is compared, and shows nothing of the data
	Lost    bool   // there is no answer: the target was not asked, or did not reply
	Tries   int    // more than one: it was undone and asked again until it was production's, so its latency says nothing
	Took    time.Duration

	off bool // it is lost since the mirror was turned off
}

// same reports whether two targets answered alike.
func (a Answer) same(b Answer, c Check) bool {
	if c != Exact {
		return (a.Error == "") == (b.Error == "")
	}
	return a.Digest == b.Digest && a.Error == b.Error
}

// inOrder reports whether both targets carried out the same before it, as far as its answer depends on that. What gives a lock back that another waits
// for does so at both, and State is about the own connection.
func (op *Operation) inOrder() bool {
	here, there := op.forced[control].Load(), op.forced[test].Load()
	return here == there && (!here || op.Locks || op.Kind == State)
}

// leg is an operation on its way at one target.
type leg struct {
	mu      sync.Mutex
	arrived bool
	waiting chan struct{} // nil until somebody waits
	lane    *lane         // set when it is submitted
	ahead   bool          // it may go before what it waits for
	calls   chan struct{} // closed then; nil until somebody waits for it
}

func (l *leg) done() {
	l.mu.Lock()
	l.arrived = true
	if l.waiting != nil {
		close(l.waiting)
	}
	l.mu.Unlock()
}

// wait returns what is closed when the operation is done at the target; nil if it is.
func (l *leg) wait() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.arrived {
		return nil
	}
	if l.waiting == nil {
		l.waiting = make(chan struct{})
	}
	return l.waiting
}

// Errors of a Reader. Any other error means that the connection's bytes were not understood.
var (
	// ErrUnmirrored ends the mirroring of a connection that does what can't be mirrored, such
	// as a subscription. It is wrapped with the reason.
	ErrUnmirrored = errors.New("not mirrored")
	// ErrTooLarge is an operation above the limit.
	ErrTooLarge = errors.New("requests and replies under way are too large to mirror")
)

// Protocol is what the engine has to know of one.
type Protocol interface {
	// Reader returns what understands a new connection.
	Reader() Reader
	// Dial connects to a target, as the target's own user.
	Dial(ctx context.Context, t *Target) (Conn, error)
}

// Reader turns the bytes of one client's connection into operations. It keeps nothing of the bytes
// that it is given. Its methods are called by one goroutine.
type Reader interface {
	// Request takes bytes of the client's.
	Request(b []byte, at time.Time) error
	// Reply takes bytes of the server's, and returns the operations that these complete.
	Reply(b []byte, at time.Time) ([]*Operation, error)
	// Held is the number of bytes that the Reader keeps of what is not complete.
	Held() int64
}

// Unanswered is a Reader of a protocol with requests that servers don't answer.
type Unanswered interface {
	// Unanswered returns those operations of the last Request.
	Unanswered() []*Operation
}

// Midway is a Reader that can tell whether its connection is in the middle of something, such as a transaction, whose rest
// makes no sense alone: a connection that is older than the run is mirrored behind that.
type Midway interface {
	Midway() bool
}

// Ender is a Reader that has something to say when its connection has ended in production. What it says of one that is given up, or that
// was never mirrored, is not sent.
type Ender interface {
	End() []*Operation
}

// Excuser is a Protocol that can look whether an answer differs for a reason that is in
// nobody's hand, such as a value that expired at one target a moment before the other.
type Excuser interface {
	Excuse(ctx context.Context, op *Operation, control, test *Target) bool
}

// Timekeeper is a Protocol whose servers would end data by clocks of their own. It ends them at the same place among the operations.
type Timekeeper interface {
	// Due returns operations that end what production has ended by now: some of them, none when there are no more. It is called again and again, by the
	// time of what comes next. They are sent on a connection of the mirror's own.
	Due(now time.Time) []*Operation
}

// Noter is a Protocol that finds out what differs between servers by nature.
type Noter interface {
	// Notes are lines for the report. They may be asked for at any time.
	Notes() []string
}

// Sizer is a Protocol that can say how much a target's data takes.
type Sizer interface {
	// Size asks a target. What it does not tell stays empty.
	Size(ctx context.Context, t *Target) (usage.Size, error)
}

// Explainer is a Protocol that can ask a target how it carries an operation out, without having it carried out.
type Explainer interface {
	// Explain is about an Operation's Example.
	Explain(ctx context.Context, t *Target, example any) plans.Plan
}

// Opener is a Protocol whose connections begin with something that is not passed through, such as the question whether there is
// TLS.
type Opener interface {
	// Open speaks with a client until its bytes may be passed through, within TLS if it asks for that and there is a
	// configuration. It returns the connection to go on with, and the first bytes that are for production.
	Open(client net.Conn, config *tls.Config) (net.Conn, []byte, error)
	// Reach connects to production for a client that has come in, with the configuration that Open got.
	Reach(ctx context.Context, production gateway.Upstream, client net.Conn, config *tls.Config) (net.Conn, error)
}

// Looker is a Protocol that can look what a target does with an operation that is not answered.
type Looker interface {
	// Look is about what was sent last on a connection. own is the connection of the operation that waits for that; nil: it has none yet.
	Look(ctx context.Context, on, own Conn) Progress
}

// Progress of an operation.
type Progress uint8

// What a Looker sees.
const (
	Working  Progress = iota // on what is asked
	Seeing                   // working, and it has the snapshot that it reads
	Stopping                 // it waits for an operation of another connection
	Yielding                 // and that connection is the own one
	Silent                   // the target does not say
)

// Conn is a connection to a target. Send and Close may be called at the same time.
type Conn interface {
	// Send sends operations in one piece and calls answered once for each, in their order.
	// After an error, or past the deadline, the connection is of no use.
	Send(ops []*Operation, deadline time.Time, answered func(i int, a Answer)) error
	Close() error
}
