package tarantool

import (
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/trace"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// exchange is a request that waits for its reply. Up to 128 bytes a map keeps it in its place; what is
// larger would be allocated for each request.
type exchange struct {
	kind  wire.Type
	tries int16         // how often it has been sent again
	probe bool          // a PING of the gateway's that tells how far the server is; so is its sync
	spent time.Duration // by the gateway on the request

	stream uint64 // the lane
	order  uint64 // in which the client sent it
	sent   uint64 // in which it was sent to the server

	// Of a request that carries a stamp of the gateway's, a version of the schema: what the client
	// sent, in a buffer of the pool's.
	stamp    uint64 // 0: none
	original []byte
	budgeted int64 // bytes of the request budget for it
	free     int32 // bytes for it that are not of the budget
	prefix   int32

	splice *splice // a step of it; the sync is the gateway's

	broken string // a part of the answer did not open: its end becomes this error

	trace *trace.Command // nil: none
}

// isRetried reports that the request is sent again when it has met another schema: the stamp in it is the gateway's.
func (e *exchange) isRetried() bool {
	if e.splice != nil {
		return !e.splice.clientStamped
	}
	return e.stamp != 0
}

// splice is a request that is carried out in steps (splice.go).
type splice struct {
	sync          uint64 // the client's
	stream        uint64
	kind          wire.Type
	clientStamped bool
	stamp         uint64 // of the step at work
	began         time.Time
	trace         *trace.Command // nil: none
	missing       *refusal       // the answer where the stored function is not there
	answers       chan stepAnswer
}

// stepAnswer is the reply pump's answer to a step.
type stepAnswer struct {
	done    bool   // the client has its answer
	moved   bool   // the schema has
	tuple   []byte // what is stored, in a buffer of the pool's; nil: it is to be read again
	release int64  // bytes of the request budget for that and what is made of it
}

// outstanding holds the requests that wait for replies: one pump adds them, the other finds them. It also has the
// client's next requests wait where the order demands that (lanes.go).
type outstanding struct {
	replies   *gateway.Account // for exchanges, which a client that takes no replies piles up
	originals originals
	flush     func() error // what the server has not been sent yet; called before a wait
	probe     func() error // sends a PING behind the requests outside of streams, whose answer tells how far the server is

	mu          sync.Mutex
	notFull     sync.Cond
	laneChanged sync.Cond // something in a lane has changed
	exchanges   exchanges
	lanes       lanes
	sent        uint64 // in the order in which requests were sent
	pieces      int    // of the replies' budget
	reserved    bool   // reserve has returned for the client's current request, and push has not: unpark waits for that
	reservedIn  uint64 // the stream of that request
	closed      bool
}

const (
	// maxOutstanding is how many replies may be outstanding. A client that sends more without
	// reading waits, as it would on a full socket.
	maxOutstanding = 64 << 10
	// freeOutstanding of them are free for each connection; more take the budget in pieces.
	freeOutstanding  = 1 << 10
	pieceOutstanding = 256
	exchangeBytes    = 512 // of one with its places in the maps
)

func newOutstanding(requests, replies *gateway.Account, flush, probe func() error) *outstanding {
	o := &outstanding{replies: replies, originals: originals{budget: requests}, flush: flush, probe: probe}
	o.notFull.L, o.laneChanged.L = &o.mu, &o.mu
	return o
}

// push adds an exchange whose request is about to be sent, before any that is pushed later. It
// reports false when the reply pump has ended.
func (o *outstanding) push(sync uint64, e exchange) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	began := e.trace.Now()
	for !o.closed && !o.hasRoom() {
		if err := o.unlocked(o.flush); err != nil {
			o.originals.drop(&e)
			return false
		}
		if !o.closed && !o.hasRoom() {
			o.notFull.Wait()
		}
	}
	if o.closed {
		o.originals.drop(&e)
		return false
	}
	if e.trace != nil {
		traceWait(e.trace, began)
		e.trace.Asks()
	}
	if e.order == 0 && e.splice == nil && !e.probe { // from the client, for the first time
		o.endReservation()
	}
	o.lanes.place(&e)
	o.sent++
	e.sent = o.sent
	o.lanes.add(&e)
	o.exchanges.add(sync, &e)
	return true
}

// unlocked does what may have to wait: replies have to be found while a write is stuck.
func (o *outstanding) unlocked(do func() error) error {
	o.mu.Unlock()
	defer o.mu.Lock()
	return do()
}

// hasRoom makes room for an exchange if it can.
func (o *outstanding) hasRoom() bool {
	switch waiting := o.exchanges.waiting; {
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

// giveBack returns the pieces of the budget.
func (o *outstanding) giveBack() {
	o.replies.Release(int64(o.pieces) * pieceOutstanding * exchangeBytes)
	o.pieces = 0
}

// take finds the exchange that a reply answers and removes it. What it keeps is the caller's to drop.
func (o *outstanding) take(sync uint64) (e exchange, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.takeLocked(sync)
}

// parkMoved is take and park in one for a reply that says that the schema has changed, so that no request of the client's gets into
// the lane between them. It leaves requests alone whose stamp is not ours, and steps. moved is called with the exchange before it is
// parked; first is what park returns.
func (o *outstanding) parkMoved(sync uint64, moved func(*exchange)) (parked, first bool, stream uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e, ok := o.exchanges.bySync[sync]; !ok || e.splice != nil || !e.isRetried() {
		return false, false, 0
	}
	e, _ := o.takeLocked(sync)
	moved(&e)
	return true, o.parkLocked(sync, e), e.stream
}

func (o *outstanding) takeLocked(sync uint64) (e exchange, ok bool) {
	if e, ok = o.exchanges.take(sync); !ok {
		return e, false
	}
	if o.exchanges.shrink() {
		o.giveBack()
	}
	if o.lanes.remove(&e) {
		o.laneChanged.Broadcast()
	}
	o.notFull.Signal()
	return e, true
}

// breakUp records that a part of an answer did not open.
func (o *outstanding) breakUp(sync uint64, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e, ok := o.exchanges.bySync[sync]; ok && e.broken == "" {
		e.broken = text
		o.exchanges.bySync[sync] = e
	}
}

// kindOf returns the type of the request that a part of an answer belongs to.
func (o *outstanding) kindOf(sync uint64) wire.Type {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.exchanges.bySync[sync].kind
}

// busy reports whether a reply is outstanding, or something is to be sent that will have one.
func (o *outstanding) busy() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lanes.anyRetrying() || len(o.exchanges.bySync) > 0
}

// close makes pushes fail, now and later, and gives back what exchanges keep.
func (o *outstanding) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.exchanges.change(func(e *exchange) bool { o.originals.drop(e); return false })
	o.exchanges.bySync, o.exchanges.more = nil, nil
	o.giveBack()
	o.notFull.Broadcast()
	o.laneChanged.Broadcast()
}

// exchanges are found by the sync of their requests, which a client may use for several at a time.
type exchanges struct {
	bySync  map[uint64]exchange
	more    map[uint64][]exchange // in their order, while another with the same sync is in bySync
	waiting int                   // exchanges in both
	peak    int                   // most in the map since it was made
}

func (x *exchanges) add(sync uint64, e *exchange) {
	if x.bySync == nil {
		x.bySync, x.more = map[uint64]exchange{}, map[uint64][]exchange{}
	}
	x.waiting++
	if _, taken := x.bySync[sync]; taken {
		x.more[sync] = append(x.more[sync], *e)
		return
	}
	x.bySync[sync] = *e
	x.peak = max(x.peak, len(x.bySync))
}

// take finds the exchange that a reply answers and removes it. The first one is meant when a
// client gives several the same number.
func (x *exchanges) take(sync uint64) (e exchange, ok bool) {
	if e, ok = x.bySync[sync]; !ok {
		return e, false
	}
	x.waiting--
	switch same := x.more[sync]; len(same) {
	case 0:
		delete(x.bySync, sync)
	case 1:
		x.bySync[sync] = same[0]
		delete(x.more, sync)
	default:
		x.bySync[sync], x.more[sync] = same[0], same[1:]
	}
	return e, true
}

// shrink lets go of a map that has room for many when nothing waits. It reports whether it did.
func (x *exchanges) shrink() bool {
	if len(x.bySync) > 0 || x.peak <= maxIdleExchanges {
		return false
	}
	x.bySync, x.more, x.peak = nil, nil, 0
	return true
}

// maxIdleExchanges limits the capacity of the map that an idle session keeps, in exchanges.
const maxIdleExchanges = 16

// change has each changed that do says it has changed.
func (x *exchanges) change(do func(*exchange) bool) {
	var (
		sync uint64
		e    exchange
	)
	for sync, e = range x.bySync {
		if do(&e) {
			x.bySync[sync] = e
		}
	}
	for _, same := range x.more {
		for i := range same {
			do(&same[i])
		}
	}
}

// any reports whether one of them is so.
func (x *exchanges) any(is func(*exchange) bool) bool {
	var e exchange
	for _, e = range x.bySync {
		if is(&e) {
			return true
		}
	}
	for _, same := range x.more {
		for i := range same {
			if is(&same[i]) {
				return true
			}
		}
	}
	return false
}

// originals keeps what a client sent for requests that may have to be sent again.
type originals struct {
	budget *gateway.Account

	mu   sync.Mutex
	kept int // bytes that are not taken from the budget
}

// maxKept bytes of originals are free for each connection.
const maxKept = 64 << 10

// keep stores what a client sent with the exchange, if there is memory for it and for as many
// more copies of it as it takes to handle it.
func (o *originals) keep(e *exchange, f *frame, more int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(f.bytes)
	cost := n * (1 + more)
	switch {
	case o.kept+cost <= maxKept:
		o.kept += cost
		e.free = int32(cost)
	case o.budget.TryAcquire(int64(cost)):
		e.budgeted = int64(cost)
	default:
		return false
	}
	e.original = append(gateway.GetBuffer(n), f.bytes...)
	e.prefix = int32(f.prefix)
	return true
}

// drop gives back what the exchange keeps.
func (o *originals) drop(e *exchange) {
	if e.original == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.budget.Release(e.budgeted)
	o.kept -= int(e.free)
	gateway.PutBuffer(e.original)
	e.original, e.budgeted, e.free = nil, 0, 0
}
