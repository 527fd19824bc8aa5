package redis

import (
	"net"
	"sync"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// kind says how the reply pump treats the reply of a request.
type kind uint8

const (
	// kindReply: copy it, decompressing the values that shape names.
	kindReply kind = iota
	// kindComputed: compute answers on the decompressed value if the reply holds an envelope.
	kindComputed
	// kindAsk: an envelope in it goes to the request pump, which waits for it; any other reply goes to the
	// client.
	kindAsk
	// kindCapture: the whole reply goes to the request pump, the client gets nothing.
	kindCapture
	// kindFloat: the server's "not a float" error goes to the request pump.
	kindFloat
	// kindRefuse: the client gets the error data.text instead.
	kindRefuse
	// kindFrame: the client gets the frame data.text instead.
	kindFrame
	// kindHook: copy it, then pass its first line to data.after.
	kindHook
	// kindSubscribe: data.acks acknowledgements, or one error.
	kindSubscribe
	// kindUnsubscribe: one acknowledgement for each existing subscription.
	kindUnsubscribe
	// kindExec: the replies of a transaction.
	kindExec
	// kindUnit: EXEC of a transaction that the gateway made around one command of the client.
	kindUnit
	// kindCluster: addresses of nodes in it are rewritten; data.text is the subcommand of CLUSTER.
	kindCluster
	// kindScriptExists: SCRIPT EXISTS; data.mask says which scripts are known here.
	kindScriptExists
	// kindRaw: unless it is an error, nothing is parsed from here on.
	kindRaw
)

// entry describes how to handle the next n replies.
type entry struct {
	kind  kind
	shape shape
	flags entryFlags
	n     int        // number of replies; more than one only for kindReply
	data  *entryData // data of the rarer kinds
}

type entryFlags uint8

const (
	// flagQueued: sent between MULTI and EXEC, so +QUEUED is expected and the entry then waits for EXEC.
	flagQueued entryFlags = 1 << iota
	// flagMute: the client gets nothing (CLIENT REPLY OFF and SKIP).
	flagMute
	// flagHidden: injected into the client's transaction; EXEC's reply leaves it out.
	flagHidden
	// flagExcluded: the keys are promised to hold no envelopes, so bytes that only look like one are the
	// value itself.
	flagExcluded
	// flagMayBlock: the server may block before it answers, even for ever.
	flagMayBlock
	// flagKeepIfOK: the client keeps its own connection if the reply is not an error (shared.go).
	flagKeepIfOK
	// flagKeepIfError: the same, if it is.
	flagKeepIfError
)

// changesNothing reports whether handling the reply changes no state that later requests wait for.
func (e *entry) changesNothing() bool {
	return e.kind == kindReply && e.flags&^flagExcluded == 0 && e.data == nil
}

// sameAs reports whether two entries can be stored as one with a count.
func (e *entry) sameAs(f *entry) bool {
	return e.kind == kindReply && f.kind == kindReply && e.shape == f.shape && e.flags == f.flags && e.data == f.data
}

// The queue is bounded in bytes. The first freeQueueBytes need no budget. Beyond them the queue takes pieces
// of the reply budget, which it keeps until it is empty. If there are none, a client that pipelines without
// reading waits, as it would on a full socket.
const (
	freeQueueBytes  = 64 << 10
	queuePieceBytes = 64 << 10
	entryBytes      = 48  // of a run of entries, with the spare room of the ring
	entryDataBytes  = 384 // of an entryData, beside its size
)

// queue passes entries from the request pump to the reply pump. An entry must be in it before the first byte
// of its request is sent. push adds an entry, or only counts it if it equals the one before; publish, which
// the sink calls before it sends, adds the counted ones.
type queue struct {
	mu      sync.Mutex
	notFull sync.Cond
	account queueBudget
	ring    []entry
	head, n int
	bytes   int
	pieces  int // of the budget
	closed  bool
	single  bool // see next
	last    bool // of the reply pump: carried must be called for the last popped entry

	// carrying: the reply pump is handling the last entry, which is no longer in the ring. What its reply
	// changes (the database, the login, subscriptions) is known only afterwards.
	carrying bool
	exact    bool // it is set for all entries, not only for those that change something

	// For the request pump: next is the entry pushed last; next.n more equal ones are not in the ring yet. An
	// entry with data of its own (single) equals no other, and next does not keep that data.
	next   entry
	pushed uint64 // requests whose replies are outstanding or have arrived

	watched *memory.Account // see watchAfterLast; nil: none

	// For the reply pump: left more replies are like the last popped one, and pop returns them without the
	// lock. One of the run stays in the ring until then.
	run    entry
	left   int
	popped uint64 // replies that pop has returned, plus left
}

// queueBudget limits the bytes that the queue holds.
type queueBudget interface {
	TryAcquire(n int64) bool
	Release(n int64)
}

func (q *queue) init(account queueBudget) {
	q.account = account
	q.notFull.L = &q.mu
}

// weight returns the bytes that an entry takes.
func (e *entry) weight() int {
	if e.data == nil || e.data.shared {
		return entryBytes
	}
	return entryBytes + entryDataBytes + e.data.size
}

// push adds the entry of one reply. It waits while there is no room, and fails when the reply pump has ended.
// It calls onWait before it waits, and the function that this returns afterwards.
func (q *queue) push(e entry, onWait func() (stop func())) error {
	e.n = 1
	if !q.single && q.next.sameAs(&e) {
		q.next.n++
		q.pushed++
		return nil
	}
	if err := q.publish(); err != nil {
		return err
	}
	q.next, q.single = e, e.data != nil && !e.data.shared
	q.next.n = 0
	if q.single {
		q.next.data = nil // it may hold much memory
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if w := e.weight(); q.n > 0 && !q.closed && !q.hasRoom(w) { // an empty queue has room for anything
		q.waitForRoom(w, onWait)
	}
	q.pushed++ // after onWait, which may send the requests before this one
	return q.add(e)
}

// publish adds the entries that were only counted. It never waits: they merge with the equal last entry of
// the queue, or the queue is empty.
func (q *queue) publish() error {
	if q.next.n == 0 {
		return nil
	}
	e := q.next
	q.next.n = 0
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.add(e)
}

// add appends an entry, or adds it to the count of the last one. q.mu must be held.
func (q *queue) add(e entry) error {
	if q.closed {
		return net.ErrClosed
	}
	if q.n > 0 {
		if last := q.at(q.n - 1); last.sameAs(&e) {
			last.n += e.n
			return nil
		}
	}
	if q.n == len(q.ring) {
		q.grow()
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = e
	q.bytes += e.weight()
	q.n++
	return nil
}

// waitForRoom waits until w more bytes fit. q.mu must be held; it is released while waitForRoom waits.
func (q *queue) waitForRoom(w int, onWait func() (stop func())) {
	q.mu.Unlock()
	stop := onWait()
	q.mu.Lock()
	for !q.closed && !q.hasRoom(w) {
		q.notFull.Wait()
	}
	stop()
}

// hasRoom reports whether w more bytes fit, and takes budget for them if necessary.
func (q *queue) hasRoom(w int) bool {
	for q.n > 0 && q.bytes+w > freeQueueBytes+q.pieces*queuePieceBytes {
		if !q.account.TryAcquire(queuePieceBytes) {
			return false
		}
		q.pieces++
	}
	return true
}

// releaseBudget releases the pieces of the budget.
func (q *queue) releaseBudget() {
	for ; q.pieces > 0; q.pieces-- {
		q.account.Release(queuePieceBytes)
	}
}

func (q *queue) at(i int) *entry { return &q.ring[(q.head+i)&(len(q.ring)-1)] }

// grow enlarges the ring.
func (q *queue) grow() {
	ring := make([]entry, max(4, 2*len(q.ring)))
	for i := range q.n {
		ring[i] = *q.at(i)
	}
	q.ring, q.head = ring, 0
}

// pop removes and returns the entry of the next reply; ok is false if none is expected.
func (q *queue) pop() (e entry, ok bool) {
	if q.left > 0 {
		q.left--
		return q.run, true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.n == 0 {
		return entry{}, false
	}
	first := &q.ring[q.head]
	e = *first
	e.n = 1
	if first.n > 1 {
		q.run, q.left = e, first.n-2
		q.popped += uint64(first.n - 1)
		first.n = 1
		return e, true
	}
	q.popped++
	q.bytes -= e.weight()
	*first = entry{}
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	if q.n == 0 {
		q.carrying = q.exact || !e.changesNothing()
		q.last = q.carrying
		if q.watched != nil {
			q.watched.Await(memory.FromClient)
		}
		q.releaseBudget()
		if len(q.ring) > maxIdleRing {
			q.ring, q.head = nil, 0
		}
	}
	q.notFull.Signal()
	return e, true
}

// watchAfterLast marks an account as waiting for the client as soon as pop has returned the last outstanding entry.
func (q *queue) watchAfterLast(a *memory.Account) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.watched = a; q.n == 0 {
		a.Await(memory.FromClient)
	}
}

// cancelWatch cancels watchAfterLast. The account may already be waiting.
func (q *queue) cancelWatch() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.watched = nil
}

// answered returns the number of replies that pop has returned, including the current one.
func (q *queue) answered() uint64 { return q.popped - uint64(q.left) }

// maxIdleRing is the largest ring, in entries, that an idle session keeps.
const maxIdleRing = 64

// carried must be called by the reply pump when it is done with the popped entry.
func (q *queue) carried() {
	if !q.last {
		return
	}
	q.last = false
	q.mu.Lock()
	defer q.mu.Unlock()
	q.carrying = false
	q.notFull.Signal()
}

// followAll makes the queue busy until the last reply has been carried to its end, whatever its entry is.
func (q *queue) followAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.exact = true
}

// waitEmpty waits until every reply so far has arrived and been carried. It reports false if the reply pump
// has ended.
func (q *queue) waitEmpty(onWait func() (stop func())) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.busy() && !q.closed {
		q.mu.Unlock()
		stop := onWait()
		q.mu.Lock()
		for q.busy() && !q.closed {
			q.notFull.Wait()
		}
		stop()
	}
	return !q.closed
}

// empty reports whether no reply is outstanding.
func (q *queue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.busy()
}

// nextMayBlock reports whether the next reply belongs to a command that may block.
func (q *queue) nextMayBlock() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n > 0 && !q.carrying && q.at(0).flags&flagMayBlock != 0
}

// busy reports whether a reply is outstanding or not carried yet. q.mu must be held.
func (q *queue) busy() bool { return q.n > 0 || q.carrying }

// close makes pushes fail from now on.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.releaseBudget()
	q.notFull.Broadcast()
}

// entryData holds the data of an entry beyond its kind. The request pump fills it in before push; the answer
// fields belong to the reply pump until done is closed.
type entryData struct {
	args        [][]byte      // kindComputed: the request, copied
	size        int           // bytes of args
	wholeValue  bool          // kindComputed: the reply is the value itself (a GET in place of a script)
	text        string        // kindRefuse, kindFrame, kindCluster
	acks        int           // kindSubscribe
	class       byte          // kindUnsubscribe: 'u', 'p' or 's', the first letter of the command
	mask        []bool        // shapeSorted, kindScriptExists
	scriptNames [2]string     // kindAsk: names of the script that ran and of the client's, which replaces it in errors
	shared      bool          // used by many entries, so it counts for none of them
	contents    contents      // kindReply: values to unwrap from a library's format
	seen        chan struct{} // closed when contents is complete; nil: it is complete already
	plainBytes  [][]byte      // shapeAny: parts of these that begin with the magic are not envelopes
	after       func(answer)
	done        chan struct{} // kindAsk, kindCapture, kindFloat, kindUnit
	answer      answer
	held        int64 // bytes of the reply budget that the answer holds; the request pump releases them
	delivered   bool  // the client has its reply
}

// answer is a reply passed to the request pump.
type answer struct {
	head      byte // first byte of the reply
	null      bool
	count     int64    // elements or bytes
	text      string   // of an error or a simple string, without its first byte
	body      []byte   // of a bulk string, kindCapture only
	truncated bool     // the list was too long to keep
	list      [][]byte // of an array of bulk strings or integers, kindCapture only; nil for other elements
}

func (a *answer) isError() bool { return a.head == '-' }

// expectsAck reports whether the next reply acknowledges subscriptions.
func (q *queue) expectsAck() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n > 0 && (q.at(0).kind == kindSubscribe || q.at(0).kind == kindUnsubscribe)
}
