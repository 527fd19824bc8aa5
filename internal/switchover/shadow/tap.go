package shadow

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// piece is a chunk of bytes that passed on a client's connection.
type piece struct {
	conn  *clientConn
	from  memory.Peer
	at    time.Time
	bytes []byte // from gateway.GetBuffer; nil: the connection has ended
}

// clientConn is the mirror's view of a client's connection.
type clientConn struct {
	number   uint64
	lost     atomic.Bool // not mirrored any more
	reserved atomic.Bool // endBytes were taken from the budget for it

	// Used by the mirror's goroutine only.
	reader    Reader // nil before the first piece
	held      int64  // by the reader
	abandoned bool   // it was given up
	early     bool   // older than the run, and not mirrored yet
}

// pieceBytes is the size of a piece without its bytes.
const pieceBytes = 64

// endBytes is reserved for a connection from its first piece until the mirror has seen its end, for the piece
// that marks the end and for the connection's state. So the end always fits.
const endBytes = 4 * pieceBytes

// Tap is the queue between production and the mirror. It never has production wait: a piece that does not fit
// is dropped, and its connection is not mirrored any more, since the rest of it could not be parsed.
type Tap struct {
	budget *budget
	mu     sync.Mutex
	queue  []piece
	closed bool
	wake   chan struct{} // holds one token when the queue may have something

	off     atomic.Bool
	dropped atomic.Uint64 // connections
	unseen  atomic.Uint64 // of these, those without any queued piece
	slow    slowness
	tooSlow func() // called when the tap has turned itself off
}

func newTap(b *budget, bound time.Duration) *Tap {
	return &Tap{budget: b, wake: make(chan struct{}, 1), slow: slowness{bound: bound}, tooSlow: func() {}}
}

// put queues a copy of b. It is called between the read and the write to the other side.
func (t *Tap) put(c *clientConn, from memory.Peer, b []byte) {
	if t.off.Load() || c.lost.Load() {
		return
	}
	began := time.Now()
	own := memory.GetBuffer(len(b))[:len(b)]
	copy(own, b)
	if p := (piece{conn: c, from: from, at: began, bytes: own}); !t.reserve(c, t.budget.take) || !t.budget.take(queued, p.size()) || !t.push(p) {
		memory.PutBuffer(own)
		if c.lost.CompareAndSwap(false, true) {
			t.dropped.Add(1)
		}
	}
	if t.slow.took(began, time.Since(began)) && t.off.CompareAndSwap(false, true) {
		t.signal()
		go t.tooSlow() // tooSlow may wait
	}
}

// putWaitBytes is the largest piece that putWait queues.
const putWaitBytes = 32 << 10

// putWait queues a copy of b as soon as there is room; its caller waits. It returns false if over is closed
// first.
func (t *Tap) putWait(over <-chan struct{}, c *clientConn, from memory.Peer, at time.Time, b []byte) bool {
	later := func(a account, n int64) bool { return t.budget.takeWait(a, n, over) }
	if !t.reserve(c, later) {
		return false
	}
	for len(b) > 0 {
		n := min(len(b), putWaitBytes)
		own := memory.GetBuffer(n)[:n]
		copy(own, b)
		b = b[n:]
		if p := (piece{conn: c, from: from, at: at, bytes: own}); !later(queued, p.size()) || !t.push(p) {
			memory.PutBuffer(own)
			return false
		}
	}
	return true
}

// reserve takes endBytes once for each connection, with take. Two goroutines may put pieces of a connection at the same
// time.
func (t *Tap) reserve(c *clientConn, take func(account, int64) bool) bool {
	if c.reserved.Load() {
		return true
	}
	if !take(queued, endBytes) {
		return false
	}
	if !c.reserved.CompareAndSwap(false, true) { // the other goroutine was first
		t.budget.free(queued, endBytes)
	}
	return true
}

// end tells the mirror that a connection has ended, if anything of it was queued.
func (t *Tap) end(c *clientConn) {
	if !c.reserved.Load() {
		if c.lost.Load() {
			t.unseen.Add(1)
		}
		return
	}
	t.push(piece{conn: c, at: time.Now()})
}

// push queues a piece that is charged to the budget. If the tap is closed, it frees the charge and returns
// false.
func (t *Tap) push(p piece) bool {
	t.mu.Lock()
	closed := t.closed
	if !closed {
		t.queue = append(t.queue, p)
	}
	t.mu.Unlock()
	if closed {
		t.budget.free(queued, p.size())
		return false
	}
	t.signal()
	return true
}

// size returns the bytes of a piece in the budget.
func (p piece) size() int64 {
	if p.bytes == nil {
		return endBytes
	}
	return int64(cap(p.bytes)) + pieceBytes
}

func (t *Tap) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// take returns the queued pieces, in order. spare is the result of the last call, to be reused. The bytes
// stay charged until they are freed.
func (t *Tap) take(spare []piece) []piece {
	clear(spare)
	t.mu.Lock()
	defer t.mu.Unlock()
	got := t.queue
	t.queue = spare[:0]
	return got
}

// free returns a piece's memory.
func (t *Tap) free(p piece) {
	t.budget.free(queued, p.size())
	if p.bytes != nil {
		memory.PutBuffer(p.bytes)
	}
}

// close makes the tap reject further pieces.
func (t *Tap) close() {
	t.off.Store(true)
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.signal()
}

// discard frees pieces that will not be read.
func (t *Tap) discard() {
	for _, p := range t.take(nil) {
		t.free(p)
	}
}

func (t *Tap) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed && len(t.queue) == 0
}

// slowness detects that the tap itself delays production too much: within a second, at least three pieces and
// more than one in a hundred took longer than bound.
type slowness struct {
	bound  time.Duration // 0: no limit, which never occurs in a run
	second atomic.Int64
	pieces atomic.Int64
	late   atomic.Int64
}

// minLate is the least number of late pieces that is too many: fewer may be due to one pause of the machine.
const minLate = 3

// took counts a piece, and reports whether the tap was too slow in the second before. A second with fewer
// than minLate pieces is judged together with the next.
func (s *slowness) took(at time.Time, d time.Duration) (tooSlow bool) {
	if s.bound == 0 {
		return false
	}
	now, old := at.Unix(), s.second.Load()
	if now != old && s.pieces.Load() >= minLate && s.second.CompareAndSwap(old, now) {
		pieces, late := s.pieces.Swap(0), s.late.Swap(0)
		tooSlow = late >= minLate && 100*late > pieces
	}
	s.pieces.Add(1)
	if d > s.bound {
		s.late.Add(1)
	}
	return tooSlow
}
