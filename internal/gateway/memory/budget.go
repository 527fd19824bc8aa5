package memory

import (
	"sync"
	"time"
)

// Budget bounds the bytes of values that a process holds in flight in one direction. It is divided: each
// gateway has a [Share] of it, each client's address a part of that, each connection an [Account]. A request
// for bytes is granted as long as something is left for accounts that hold less (see share.go); otherwise it
// waits.
//
// Memory is requested as bytes arrive, so an account that holds some waits for more. Without further measures
// that is a deadlock as soon as all holders wait. It cannot happen here:
//
//   - An eighth of the budget, the reserve, is kept for accounts that wait. A holder gets room in it for all
//     bytes that it still needs, its claim, or for none. So it does not wait again, and gives everything back
//     when its message is done.
//   - A claim above an eighth of the reserve would use the reserve up. One such holder at a time may go
//     beyond the budget: it is oversize, and does not wait again either. A second one is allowed if it
//     belongs to another gateway, because a gateway in front of another gateway of the same process holds a
//     message until the second one has it too.
//   - So whenever an account waits, there is a holder that does not. If there were none, the reserve and the
//     oversize place would be free, and the first waiter would have got them.
//   - A holder that does not wait for the budget waits for a peer. That ends too: peers that move less than a
//     minimum while others wait are disconnected (stall.go).
//
// A claim may turn out too small where the protocol does not say how long a message is. An oversize holder
// gets more at once. A holder with a claim on the reserve may have to wait again, for the oversize place; it
// gives up after a time, and meanwhile its peer is checked for stalls.
//
// So the bytes in use are at most the size of the budget and one message beyond it, or two where there are
// several gateways. Requests and replies have a budget each, because a request may wait for its reply, but a
// reply never waits for a request.
//
// A nil Budget, and one of size zero or less, has no limit and counts nothing.
type Budget struct {
	size int64

	mu         sync.Mutex
	shared     int64      // bytes in use that are not from the reserve
	extra      int64      // bytes in use from the reserve, and beyond the budget
	overcommit overcommit // holders of extra bytes
	peak       int64
	shares     []*Share
	next       int // index of the share that is served first
	holders    holders
	stalls     stallDetector
	waiting    int
	waits      uint64
	waited     time.Duration
	gaveUp     uint64
}

// Use is the state of a Budget at one moment.
type Use struct {
	Size    int64         // bytes; 0: no limit
	InUse   int64         // bytes
	Peak    int64         // most bytes in use since the start
	Waiting int           // blocked requests
	Waits   uint64        // requests that had to wait, in total
	Waited  time.Duration // time spent waiting, in total
	GaveUp  uint64        // requests whose context ended while they waited
}

// NewBudget returns a budget of size bytes.
func NewBudget(size int64) *Budget {
	size = max(size, 0)
	b := &Budget{size: size, overcommit: overcommit{size: size, reserve: size / 8}}
	b.stalls.of = b
	return b
}

// TryAcquire takes n bytes if they are free. It is for memory that belongs to no client: it may take the
// whole budget, the reserve included.
func (b *Budget) TryAcquire(n int64) bool {
	if b == nil || b.size == 0 || n <= 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shared+b.extra+n > b.size {
		return false
	}
	b.shared += n
	b.recordUse()
	return true
}

// Release gives back n bytes that TryAcquire has taken. It panics if that is more than is in use, which is a
// bug of the caller.
func (b *Budget) Release(n int64) {
	if b == nil || b.size == 0 || n <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shared < n {
		panic("gateway: budget released more than acquired")
	}
	b.shared -= n
	b.serve()
}

// InUse returns the number of bytes in use.
func (b *Budget) InUse() int64 { return b.Use().InUse }

// Waiting returns the number of requests that wait.
func (b *Budget) Waiting() int { return b.Use().Waiting }

// Use returns the budget's state and totals.
func (b *Budget) Use() Use {
	if b == nil {
		return Use{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return Use{
		Size: b.size, InUse: b.shared + b.extra, Peak: b.peak, Waiting: b.waiting,
		Waits: b.waits, Waited: b.waited, GaveUp: b.gaveUp,
	}
}

// free returns the unused bytes outside the reserve. b.mu must be held.
func (b *Budget) free() int64 { return b.size - b.overcommit.reserve - b.shared }

// recordUse records that more bytes are in use. b.mu must be held.
func (b *Budget) recordUse() {
	b.peak = max(b.peak, b.shared+b.extra)
	if b.isHalfUsed() {
		b.stalls.begin()
	}
}

// isHalfUsed reports whether more than half of the budget is in use. b.mu must be held.
func (b *Budget) isHalfUsed() bool { return b.shared+b.extra > b.size/2 }

// holders is the list of the accounts that hold bytes.
type holders struct{ first *Account }

func (h *holders) add(a *Account) {
	a.prev, a.nextOne = nil, h.first
	if h.first != nil {
		h.first.prev = a
	}
	h.first = a
}

// remove takes a off the list, if it is there.
func (h *holders) remove(a *Account) {
	switch {
	case a.prev != nil:
		a.prev.nextOne = a.nextOne
	case h.first == a:
		h.first = a.nextOne
	default:
		return
	}
	if a.nextOne != nil {
		a.nextOne.prev = a.prev
	}
	a.prev, a.nextOne = nil, nil
}
