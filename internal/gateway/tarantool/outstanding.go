package tarantool

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/trace"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// exchange is a request that waits for its reply. It must have at most 128 bytes: a map stores larger elements
// separately, which would cost an allocation for each request.
type exchange struct {
	kind  wire.Type
	tries int16         // number of times it has been sent again
	probe bool          // a PING of the gateway with a sync of its own, see session.probe
	spent time.Duration // time that the gateway spent on the request

	stream uint64 // stream, which names the queue
	order  uint64 // number in the order of the client's requests; 0: not assigned yet
	sent   uint64 // number in the order of the requests sent to the server; 0: not sent yet

	// For a request with a stamp, the schema version that the gateway has put into it.
	stamp       uint64 // 0: none
	original    []byte // the client's request, in a pooled buffer
	budgetBytes int64  // bytes taken from the request budget for original
	freeBytes   int32  // bytes for original that are not taken from the budget
	prefix      int32  // size of the length prefix of original in bytes
	tupleHash   uint64 // see rewritten; 0: none

	stepped *steppedRequest // the exchange is a step of this request, with a sync of the gateway; nil: no step

	partError string // a part of the reply could not be decompressed: the reply itself becomes this error

	trace *trace.Command // nil: none
}

// isRetried reports whether the request is sent again if the server refuses it for its schema version. It is, if the
// gateway has set that version.
func (e *exchange) isRetried() bool {
	if e.stepped != nil {
		return !e.stepped.clientStamped
	}
	return e.stamp != 0
}

// steppedRequest is a request that is carried out in steps (steps.go).
type steppedRequest struct {
	sync          uint64 // sync of the client's request
	stream        uint64
	kind          wire.Type
	clientStamped bool   // the client's request names a schema version
	stamp         uint64 // schema version in the steps
	began         time.Time
	trace         *trace.Command // nil: none
	noFunction    *refusal       // the error if the stored function does not exist
	answers       chan stepAnswer
}

// stepAnswer is the result of a step, sent by the reply pump.
type stepAnswer struct {
	done          bool   // the client has got its reply
	schemaChanged bool   // the server had another schema
	tuple         []byte // the stored tuple, in a pooled buffer; nil: it has to be read again
	budgetBytes   int64  // bytes taken from the request budget for tuple and for the next step
}

// outstanding holds the requests that wait for replies: the request pump adds them, the reply pump takes
// them. It also makes the client's next requests wait where their order requires it (streamqueues.go).
type outstanding struct {
	replies     *memory.Account // accounts for exchanges, which accumulate if a client reads no replies
	retryBuffer retryBuffer
	flush       func() error // flushes the frames gathered for the server; called before a wait
	probe       func() error // see session.probe

	mu           sync.Mutex
	notFull      sync.Cond
	queueChanged sync.Cond // signals a change in some queue, and the end of the last exchange
	exchanges    exchanges
	queues       streamQueues
	sent         uint64 // number of requests sent to the server so far
	pieces       int    // number of pieces taken from the reply budget
	reserved     bool   // the client's current request has been reserved and not pushed yet; unpark waits for push
	reservedIn   uint64 // the stream of that request
	closed       bool
}

const (
	// maxOutstanding limits the outstanding replies. The gateway reads no more requests from a client that has so
	// many.
	maxOutstanding = 64 << 10
	// freeOutstanding is the number of outstanding replies that each connection may have without taking memory from
	// the budget. Memory for more is taken in pieces of pieceOutstanding replies.
	freeOutstanding  = 1 << 10
	pieceOutstanding = 256
	exchangeBytes    = 512 // memory of one exchange, including its entries in maps
)

func newOutstanding(requests, replies *memory.Account, flush, probe func() error) *outstanding {
	o := &outstanding{replies: replies, retryBuffer: retryBuffer{budget: requests}, flush: flush, probe: probe}
	o.notFull.L, o.queueChanged.L = &o.mu, &o.mu
	return o
}

// push adds an exchange. The caller must send its request before the request of any exchange that is pushed later.
// push waits for room, and returns false if the reply pump has ended or flush fails.
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

// releasePieces gives the memory of all pieces back to the budget.
func (o *outstanding) releasePieces() {
	o.replies.Release(int64(o.pieces) * pieceOutstanding * exchangeBytes)
	o.pieces = 0
}

// take removes and returns the exchange that a reply answers. The caller must drop its copy in the retry buffer.
func (o *outstanding) take(sync uint64) (e exchange, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.takeLocked(sync)
}

// parkRefused does take and park at once, for a reply that says that the schema has changed, so that no request of
// the client enters the queue in between. It ignores steps, and requests whose stamp is not the gateway's. refused is
// called with the exchange before that is parked. first is the result of park.
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
	if o.queues.remove(&e) || len(o.exchanges.bySync) == 0 {
		o.queueChanged.Broadcast()
	}
	o.notFull.Signal()
	return e, true
}

// recordPartError records the error text for a reply of which a part could not be decompressed.
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
	return o.busyLocked()
}

func (o *outstanding) busyLocked() bool {
	return o.queues.anyRetrying() || len(o.exchanges.bySync) > 0
}

// maxReplyWait limits how long awaitReplies waits.
const maxReplyWait = 30 * time.Second

var errBusy = errors.New("replication was requested while replies were outstanding")

// awaitReplies waits until no reply is outstanding and no request is to be sent again.
func (o *outstanding) awaitReplies() error {
	if err := o.flush(); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	expired := false
	timer := time.AfterFunc(maxReplyWait, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		expired = true
		o.queueChanged.Broadcast()
	})
	defer timer.Stop()
	for !o.closed && !expired && o.busyLocked() {
		o.queueChanged.Wait()
	}
	switch {
	case o.closed:
		return net.ErrClosed
	case expired:
		return errBusy
	}
	return nil
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
	duplicates map[uint64][]exchange // later exchanges with a sync that is in bySync, in their order
	count      int                   // number of exchanges in both maps
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

// take removes and returns the exchange with a sync; the first, if a client used the sync for several.
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

// maxKept limits the bytes of copies that each connection may keep without taking memory from the budget.
const maxKept = 64 << 10

// keep stores a copy of the client's frame in the exchange. It returns false if there is no memory for this copy and
// for more further copies, which handling the request takes.
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
