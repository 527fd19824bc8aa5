package redis

import "sync"

// kind says how the reply pump treats the reply of a request.
type kind uint8

const (
	// kindReply: copy it, open the values that shape names.
	kindReply kind = iota
	// kindComputed: an envelope in it is answered by compute on the opened value.
	kindComputed
	// kindAsk: an envelope in it goes to the request pump, which waits; anything else is
	// the client's reply.
	kindAsk
	// kindCapture: the whole reply goes to the request pump, the client gets nothing.
	kindCapture
	// kindFloat: the server's "not a float" goes to the request pump.
	kindFloat
	// kindRefuse: op.text takes its place.
	kindRefuse
	// kindHook: copy it, then tell op.after what it was.
	kindHook
	// kindSubscribe: op.acks acknowledgements, or one error.
	kindSubscribe
	// kindUnsubscribe: one acknowledgement for each subscription there is.
	kindUnsubscribe
	// kindExec: the replies of a transaction.
	kindExec
	// kindUnit: EXEC of a transaction of our own around one command of the client.
	kindUnit
	// kindRaw: nothing is parsed from here on.
	kindRaw
)

// entry is what the reply pump must know about the next n replies.
type entry struct {
	kind  kind
	shape shape
	flags entryFlags
	n     int // replies; more than one only for kindReply
	op    *op // what the rarer kinds need
}

type entryFlags uint8

const (
	// flagQueued: sent between MULTI and EXEC, so that +QUEUED is expected and the entry
	// then waits for EXEC.
	flagQueued entryFlags = 1 << iota
	// flagMute: the client gets nothing (CLIENT REPLY OFF and SKIP).
	flagMute
	// flagHidden: injected into the client's transaction; EXEC's reply leaves it out.
	flagHidden
)

// sameAs reports whether two entries can be one with a count.
func (e *entry) sameAs(f *entry) bool {
	return e.kind == kindReply && f.kind == kindReply && e.shape == f.shape && e.flags == f.flags &&
		e.op == nil && f.op == nil
}

// maxQueued bounds the queue's runs of entries. A client that pipelines more than that
// many requests of alternating kinds without reading waits, as it would on a full socket.
const maxQueued = 1 << 17

// queue hands entries from the request pump to the reply pump.
type queue struct {
	mu      sync.Mutex
	notFull sync.Cond
	ring    []entry
	head, n int
	closed  bool
}

func (q *queue) init() { q.notFull.L = &q.mu }

// push adds an entry. It waits while the queue is full and reports false when the reply
// pump has ended. beforeWait is called once before it waits.
func (q *queue) push(e entry, beforeWait func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.n > 0 {
		if last := q.at(q.n - 1); last.sameAs(&e) {
			last.n += e.n
			return !q.closed
		}
	}
	if q.n >= maxQueued && !q.closed {
		q.mu.Unlock()
		beforeWait()
		q.mu.Lock()
	}
	for q.n >= maxQueued && !q.closed {
		q.notFull.Wait()
	}
	if q.closed {
		return false
	}
	q.grow()
	*q.at(q.n) = e
	q.n++
	return true
}

func (q *queue) at(i int) *entry { return &q.ring[(q.head+i)&(len(q.ring)-1)] }

func (q *queue) grow() {
	if q.n < len(q.ring) {
		return
	}
	ring := make([]entry, max(4, 2*len(q.ring)))
	for i := range q.n {
		ring[i] = *q.at(i)
	}
	q.ring, q.head = ring, 0
}

// pop takes the entry of the next reply; ok is false when nobody expects one.
func (q *queue) pop() (e entry, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.n == 0 {
		return entry{}, false
	}
	first := q.at(0)
	e = *first
	e.n = 1
	if first.n > 1 {
		first.n--
		return e, true
	}
	*first = entry{}
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	if q.n == 0 && len(q.ring) > maxIdleRing {
		q.ring, q.head = nil, 0
	}
	q.notFull.Signal()
	return e, true
}

// maxIdleRing is the largest ring, in entries, that an idle session keeps.
const maxIdleRing = 64

// empty reports whether no reply is outstanding.
func (q *queue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n == 0
}

// close makes pushes fail, now and later.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.notFull.Broadcast()
}

// op is what an entry carries beyond its kind. The request pump fills it in before it is
// pushed; the answer fields belong to the reply pump until done is closed.
type op struct {
	args       [][]byte // kindComputed: the request, copied
	plain      bool     // kindComputed: the reply is the value itself (a GET in place of a script)
	text       string   // kindRefuse
	acks       int      // kindSubscribe
	class      byte     // kindUnsubscribe: 's', 'p' or 'S'
	mask       []bool   // shapeSorted
	plainBytes [][]byte // shapeAny: what begins with the magic and is no envelope of ours
	after      func(answer)
	done       chan struct{} // kindAsk, kindCapture, kindFloat, kindUnit
	answer     answer
	sealed     [][]byte // kindAsk: the envelopes found
	held       int64    // bytes of the reply budget that sealed and answer.body hold; the request pump releases them
	given      bool     // the client has its reply
}

// answer is a reply as the request pump sees it.
type answer struct {
	head  byte // first byte of the reply
	null  bool
	count int64    // elements or bytes
	text  string   // of an error or a simple string, without its first byte
	body  []byte   // of a bulk string, kindCapture only
	list  [][]byte // of an array of bulk strings, kindCapture only; nil for other elements
}

func (a *answer) isError() bool { return a.head == '-' }

// expectsAck reports whether the next reply acknowledges subscriptions.
func (q *queue) expectsAck() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n > 0 && (q.at(0).kind == kindSubscribe || q.at(0).kind == kindUnsubscribe)
}
