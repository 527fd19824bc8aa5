package shadow

import (
	"sync"
	"sync/atomic"
	"time"
)

// Indexes of the targets in arrays.
const (
	control = iota
	test
	targets
)

// Kind classifies how an operation uses data.
type Kind uint8

// Kinds of operations.
const (
	State Kind = iota // of the connection: always mirrored, its latency never judged
	Read
	Write
)

// String returns the word that reports use.
func (k Kind) String() string { return [...]string{"state", "read", "write"}[k] }

// Check selects how the answers of the targets are compared.
type Check uint8

// Checks.
const (
	Exact   Check = iota // the answers are equal
	Success              // both succeed or both fail: the answers differ by nature
)

// Operation is a request of a client together with production's answer. A Reader makes it. Once it is
// submitted, only the targets' answers are added to it.
type Operation struct {
	Kind  Kind
	Check Check
	// Name is the fingerprint: operations of one name are expected to cost alike. Readers keep the number of
	// names small.
	Name string
	// Keys are the keys that the operation touches. An operation that touches a key touches its parts, too:
	// see Part. Those with TouchesAll touch everything.
	Keys       []string
	TouchesAll bool
	// Uses are keys that the operation changes even if it is a Read, such as the cursor that it moves.
	Uses []string

	Request []byte // the bytes sent to targets, owned by the operation
	Replies int    // number of expected replies; 0 means 1
	Form    uint8  // how the answer is compared, for the Protocol's own use
	Private any    // for the Protocol's own use
	Example any    // input of an Explainer: one of each name is kept in memory; nil: not explained
	// Blocks marks an operation that may wait at a target for an operation of another connection. Its latency is not
	// judged, and operations behind it wait for it no longer than Config.Wait.
	Blocks bool
	// Untimed marks an operation of the mirror itself, whose latency is not judged.
	Untimed bool
	// Locks marks an operation that may wait at a target for another connection's lock. It needs a Looker.
	Locks bool
	// WasBlocked marks an operation that waited in production for an operation of another connection, whose answer may
	// arrive after its own.
	WasBlocked bool
	// Follows is the operation that this one depends on, such as the query whose cursor it reads. If sampling
	// leaves that one out, this one is left out, too.
	Follows *Operation
	// SkipReason, unless empty, is the reason why the operation is not sent, only counted.
	SkipReason string
	// Snapshot marks a read that sees the data as of its beginning, so that operations behind it need not wait for its
	// end. It needs a Looker. A target may take one snapshot to plan the read and another to execute it, so if a write
	// was sent before the end of the read, answers that differ count as not in order.
	Snapshot bool
	// Redefines marks an operation, such as DROP or TRUNCATE, whose effect even reads with an older snapshot
	// see. It waits until those reads have ended.
	Redefines bool
	// Keep marks an operation that also changes its connection, such as preparing a statement: a read with
	// Keep is mirrored whatever the share of reads.
	Keep bool
	// Lasts says how long the effect of a State, or of a Read with Keep, on its connection lasts. For a Write
	// only the value Unrepeatable is used.
	Lasts Lasting
	// Ends says how the operation ended the transaction that its connection had open.
	Ends Ending

	// ReplacedReason, unless empty, is the reason why targets get another request than the client's. It is
	// counted like a SkipReason.
	ReplacedReason string

	// Expected is the size of production's answer in bytes, and the estimate for the targets' answers.
	Expected int64
	// Production is production's answer. It is Lost if targets get another request than production did.
	Production Answer

	conn           uint64 // number of the client's connection
	number         uint64 // by completion in production
	answers        [targets]Answer
	legs           [targets]leg
	pendingTargets atomic.Int32         // targets that are not done with it
	stopped        atomic.Bool          // it waited at a target for another operation: its latency is not judged
	passed         atomic.Bool          // a target sent a write before its end, and it may take a snapshot after that
	forced         [targets]atomic.Bool // the target sent it without waiting for all earlier operations
	size           int64                // bytes taken from the mirror's budget
	skipped        bool                 // sampling leaves it out
}

// Lasting says how long an effect on a connection lasts. A new connection to a target repeats what has lasted.
type Lasting uint8

// Ways to last.
const (
	ForGood       Lasting = iota // as long as the connection
	IfCommitted                  // likewise, unless its transaction is rolled back
	InTransaction                // as long as its transaction
	Unrepeatable                 // only a part of it lasts, so the request must not be repeated
)

// Ending says how a transaction ended.
type Ending uint8

// Ends of transactions.
const (
	NotEnded Ending = iota
	Committed
	RolledBack
)

// Part separates, in a key, the name of the whole from the name of the part.
const Part = "\x00"

// Answer is the result of an operation at production or a target.
type Answer struct {
	Digest  uint64 // of the answer, in its form for comparison
	Error   string // its code, if the answer is an error
	Missing bool   // the answer says that there is nothing
	Bare    bool   // neither data nor a number of rows, as for a COMMIT: compared, but no evidence about data
	Lost    bool   // there is no answer: the target was not asked, or did not reply
	Tries   int    // over 1: undone and repeated until it matched production's, so its latency is not judged
	Took    time.Duration

	off bool // lost because the mirror was turned off
}

// same reports whether two targets answered alike.
func (a Answer) same(b Answer, c Check) bool {
	if c != Exact {
		return (a.Error == "") == (b.Error == "")
	}
	return a.Digest == b.Digest && a.Error == b.Error
}

// inOrder reports whether both targets carried out the same operations before this one, as far as its answer
// depends on them. An operation that both targets sent without waiting is in order in two cases: if it uses
// locks, because it then released one that another operation waited for, at both targets; or if it is State,
// because that concerns only its own connection.
func (op *Operation) inOrder() bool {
	here, there := op.forced[control].Load(), op.forced[test].Load()
	return here == there && (!here || op.Locks || op.Kind == State)
}

// leg is the progress of an operation at one target.
type leg struct {
	mu      sync.Mutex
	arrived bool
	waiting chan struct{} // nil until a goroutine waits
	conn    *targetConn   // set when it is submitted
	ahead   bool          // it may go before the operations that it waits for
	calls   chan struct{} // closed when ahead is set; nil until a goroutine waits for that
}

func (l *leg) done() {
	l.mu.Lock()
	l.arrived = true
	if l.waiting != nil {
		close(l.waiting)
	}
	l.mu.Unlock()
}

// wait returns a channel that is closed when the operation is done at the target; nil if it is done.
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
