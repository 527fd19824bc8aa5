package tarantool

import (
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/trace"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// exchange is a request that waits for its reply. A map stores elements of up to 128 bytes in place; a larger
// exchange would be allocated for each request.
type exchange struct {
	kind  wire.Type
	tries int16         // number of times it has been sent again
	probe bool          // a PING sent by the gateway, with a sync of the gateway, that tells how far the server is
	spent time.Duration // time that the gateway spent on the request

	stream uint64 // names the queue
	order  uint64 // its place among the requests of the client
	sent   uint64 // its place among the requests sent to the server

	// Of a request that carries a stamp set by the gateway, a version of the schema. original holds the
	// client's request, in a pooled buffer.
	stamp       uint64 // 0: none
	original    []byte
	budgetBytes int64 // bytes taken from the request budget for original
	freeBytes   int32 // bytes for original that are not taken from the budget
	prefix      int32

	stepped *steppedRequest // the exchange is a step of this splice, with a sync of the gateway

	partError string // a part of the reply could not be decompressed: its end becomes this error

	trace *trace.Command // nil: none
}

// isRetried reports whether the request is sent again when the server has another schema, which is the case
// if the stamp in it is the gateway's.
func (e *exchange) isRetried() bool {
	if e.stepped != nil {
		return !e.stepped.clientStamped
	}
	return e.stamp != 0
}

// steppedRequest is a request that is carried out in steps (steps.go).
type steppedRequest struct {
	sync          uint64 // the client's
	stream        uint64
	kind          wire.Type
	clientStamped bool
	stamp         uint64 // of the current step
	began         time.Time
	trace         *trace.Command // nil: none
	noFunction    *refusal       // the error if the stored function does not exist
	answers       chan stepAnswer
}

// stepAnswer is the result of a step, sent by the reply pump.
type stepAnswer struct {
	done          bool   // the client has its reply
	schemaChanged bool   // the server had another schema
	tuple         []byte // the stored tuple, in a pooled buffer; nil: it is to be read again
	budgetBytes   int64  // bytes taken from the request budget for tuple and for what is made from it
}

// outstanding holds the requests that wait for replies: the request pump adds them, the reply pump finds
// them. It also makes the client's next requests wait where the order demands that (streamqueues.go).
type outstanding struct {
	replies     *memory.Account // for exchanges, which pile up if a client reads no replies
	retryBuffer retryBuffer
	flush       func() error // sends what is gathered for the server; called before a wait
	probe       func() error // sends a PING; its reply tells how far the server is, see session.probe

	mu           sync.Mutex
	notFull      sync.Cond
	queueChanged sync.Cond // signals a change in some queue
	exchanges    exchanges
	queues       streamQueues
	sent         uint64 // number of requests sent to the server so far
	pieces       int    // pieces taken from the reply budget
	reserved     bool   // between reserve and push of the client's current request; unpark waits for push
	reservedIn   uint64 // the stream of that request
	closed       bool
}

const (
	// maxOutstanding limits the outstanding replies. A client that sends more requests without reading
	// replies waits, as it would on a full socket.
	maxOutstanding = 64 << 10
	// freeOutstanding is the number of them that each connection has free; more are taken from the budget in
	// pieces.
	freeOutstanding  = 1 << 10
	pieceOutstanding = 256
	exchangeBytes    = 512 // of one exchange with its places in the maps
)

func newOutstanding(requests, replies *memory.Account, flush, probe func() error) *outstanding {
	o := &outstanding{replies: replies, retryBuffer: retryBuffer{budget: requests}, flush: flush, probe: probe}
	o.notFull.L, o.queueChanged.L = &o.mu, &o.mu
	return o
}

// push adds an exchange whose request is sent next. The request must be sent before any that is pushed later.
// push reports false when the reply pump has ended.
func (o *outstanding) push(sync uint64, e exchange) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	began := e.trace.Now()
	for !o.closed && !o.hasRoom() {
		if err := o.unlocked(o.flush); err != nil {
			o.retryBuffer.drop(&e)
			return false
		}
		if !o.closed && !o.hasRoom() {
			o.notFull.Wait()
		}
	}
	if o.closed {
		o.retryBuffer.drop(&e)
		return false
	}
	if e.trace != nil {
		traceWait(e.trace, began)
		e.trace.StartUpstream()
	}
	if e.order == 0 && e.stepped == nil && !e.probe { // a client's request, sent for the first time
		o.endReservation()
	}
	o.queues.assignOrder(&e)
	o.sent++
	e.sent = o.sent
	o.queues.add(&e)
	o.exchanges.add(sync, &e)
	return true
}

// unlocked calls do, which may block, without o.mu, so that replies can be handled while a write is stuck.
// o.mu must be held.
func (o *outstanding) unlocked(do func() error) error {
	o.mu.Unlock()
	defer o.mu.Lock()
	return do()
}

// hasRoom reports whether there is room for an exchange. It takes more from the budget if necessary.
func (o *outstanding) hasRoom() bool {
	switch waiting := o.exchanges.count; {
	case waiting >= maxOutstanding:
		return false
	case waiting < freeOutstanding+o.pieces*pieceOutstanding:
		return true
	case !o.replies.TryAcquire(pieceOutstanding * exchangeBytes):
		return false
	}
	o.pieces++
	return true
}

// releasePieces returns the pieces to the budget.
func (o *outstanding) releasePieces() {
	o.replies.Release(int64(o.pieces) * pieceOutstanding * exchangeBytes)
	o.pieces = 0
}

// take finds the exchange that a reply answers and removes it. The caller must drop its copy in the retry buffer.
func (o *outstanding) take(sync uint64) (e exchange, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.takeLocked(sync)
}

// parkRefused combines take and park for a reply that says that the schema has changed, so that no request of
// the client enters the queue in between. It leaves alone steps and requests whose stamp is not the gateway's.
// refused is called with the exchange before it is parked. first is the result of park.
func (o *outstanding) parkRefused(sync uint64, refused func(*exchange)) (parked, first bool, stream uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e, ok := o.exchanges.bySync[sync]; !ok || e.stepped != nil || !e.isRetried() {
		return false, false, 0
	}
	e, _ := o.takeLocked(sync)
	refused(&e)
	return true, o.parkLocked(sync, e), e.stream
}

func (o *outstanding) takeLocked(sync uint64) (e exchange, ok bool) {
	if e, ok = o.exchanges.take(sync); !ok {
		return e, false
	}
	if o.exchanges.shrink() {
		o.releasePieces()
	}
	if o.queues.remove(&e) {
		o.queueChanged.Broadcast()
	}
	o.notFull.Signal()
	return e, true
}

// recordPartError records that a part of a reply could not be decompressed.
func (o *outstanding) recordPartError(sync uint64, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e, ok := o.exchanges.bySync[sync]; ok && e.partError == "" {
		e.partError = text
		o.exchanges.bySync[sync] = e
	}
}

// kindOf returns the type of the request that a part of a reply belongs to.
func (o *outstanding) kindOf(sync uint64) wire.Type {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.exchanges.bySync[sync].kind
}

// busy reports whether a reply is outstanding, or a request is to be sent again.
func (o *outstanding) busy() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.queues.anyRetrying() || len(o.exchanges.bySync) > 0
}

// close makes pushes fail, now and later, and releases the memory of all exchanges.
func (o *outstanding) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.exchanges.update(func(e *exchange) bool { o.retryBuffer.drop(e); return false })
	o.exchanges.bySync, o.exchanges.duplicates = nil, nil
	o.releasePieces()
	o.notFull.Broadcast()
	o.queueChanged.Broadcast()
}

// exchanges finds exchanges by the sync of their requests. A client may use a sync for several requests at a
// time.
type exchanges struct {
	bySync     map[uint64]exchange
	duplicates map[uint64][]exchange // later ones with a sync that is in bySync, in their order
	count      int                   // exchanges in both
	peak       int                   // largest length of bySync since it was made
}

func (x *exchanges) add(sync uint64, e *exchange) {
	if x.bySync == nil {
		x.bySync, x.duplicates = map[uint64]exchange{}, map[uint64][]exchange{}
	}
	x.count++
	if _, taken := x.bySync[sync]; taken {
		x.duplicates[sync] = append(x.duplicates[sync], *e)
		return
	}
	x.bySync[sync] = *e
	x.peak = max(x.peak, len(x.bySync))
}

// take finds the exchange that a reply answers and removes it: the first, if a client used a sync for
// several.
func (x *exchanges) take(sync uint64) (e exchange, ok bool) {
	if e, ok = x.bySync[sync]; !ok {
		return e, false
	}
	x.count--
	switch same := x.duplicates[sync]; len(same) {
	case 0:
		delete(x.bySync, sync)
	case 1:
		x.bySync[sync] = same[0]
		delete(x.duplicates, sync)
	default:
		x.bySync[sync], x.duplicates[sync] = same[0], same[1:]
	}
	return e, true
}

// shrink frees the maps if they are empty but have room for many. It reports whether it did.
func (x *exchanges) shrink() bool {
	if len(x.bySync) > 0 || x.peak <= maxIdleExchanges {
		return false
	}
	x.bySync, x.duplicates, x.peak = nil, nil, 0
	return true
}

// maxIdleExchanges limits the capacity of the map that an idle session keeps, in exchanges.
const maxIdleExchanges = 16

// update calls do for each exchange, and stores it if do reports a change.
func (x *exchanges) update(do func(*exchange) bool) {
	var (
		sync uint64
		e    exchange
	)
	for sync, e = range x.bySync {
		if do(&e) {
			x.bySync[sync] = e
		}
	}
	for _, same := range x.duplicates {
		for i := range same {
			do(&same[i])
		}
	}
}

// any reports whether is returns true for any exchange.
func (x *exchanges) any(is func(*exchange) bool) bool {
	var e exchange
	for _, e = range x.bySync {
		if is(&e) {
			return true
		}
	}
	for _, same := range x.duplicates {
		for i := range same {
			if is(&same[i]) {
				return true
			}
		}
	}
	return false
}

// retryBuffer keeps copies of the client's requests that may have to be sent again.
type retryBuffer struct {
	budget *memory.Account

	mu   sync.Mutex
	kept int // bytes in use that are not taken from the budget
}

// maxKept is the number of bytes of requests that each connection has free, without budget.
const maxKept = 64 << 10

// keep stores a copy of the client's frame in the exchange. It reports false if there is no memory for it and
// for the given number of further copies that handling it takes.
func (o *retryBuffer) keep(e *exchange, f *frame, more int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(f.bytes)
	cost := n * (1 + more)
	switch {
	case o.kept+cost <= maxKept:
		o.kept += cost
		e.freeBytes = int32(cost)
	case o.budget.TryAcquire(int64(cost)):
		e.budgetBytes = int64(cost)
	default:
		return false
	}
	e.original = append(memory.GetBuffer(n), f.bytes...)
	e.prefix = int32(f.prefix)
	return true
}

// drop releases the original of an exchange.
func (o *retryBuffer) drop(e *exchange) {
	if e.original == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.budget.Release(e.budgetBytes)
	o.kept -= int(e.freeBytes)
	memory.PutBuffer(e.original)
	e.original, e.budgetBytes, e.freeBytes = nil, 0, 0
}
