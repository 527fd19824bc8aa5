package shadow

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// piece is bytes that went by on a client's connection.
type piece struct {
	conn  *tapped
	from  gateway.Peer
	at    time.Time
	bytes []byte // of gateway.GetBuffer; nil: the connection has ended
}

// tapped is a client's connection to the mirror.
type tapped struct {
	number uint64
	lost   atomic.Bool // mirrored no more

	// The mirror's goroutine's.
	reader Reader // nil before the first piece
	held   int64  // by the reader
	given  bool   // up
}

// pieceBytes is what a piece counts beside its bytes.
const pieceBytes = 64

// Tap is the queue between production and the mirror. It never waits: what does not fit is
// dropped, and the connection that it belongs to is mirrored no more, since the rest of it could not
// be understood.
type Tap struct {
	mu     sync.Mutex
	queue  []piece
	bytes  int64
	limit  int64
	closed bool
	wake   chan struct{} // holds one token when the queue may have something
	freed  chan struct{} // holds one token after something was freed

	off     atomic.Bool
	dropped atomic.Uint64 // connections
	slow    slowness
	tooSlow func() // is called when the tap has turned itself off
}

func newTap(limit int64, bound time.Duration) *Tap {
	return &Tap{limit: limit, wake: make(chan struct{}, 1), freed: make(chan struct{}, 1), slow: slowness{bound: bound}, tooSlow: func() {}}
}

// put takes a copy of b. It is called between a read and the write to the other side.
func (t *Tap) put(c *tapped, from gateway.Peer, b []byte) {
	if t.off.Load() || c.lost.Load() {
		return
	}
	began := time.Now()
	own := gateway.GetBuffer(len(b))[:len(b)]
	copy(own, b)
	if !t.push(piece{conn: c, from: from, at: began, bytes: own}) {
		gateway.PutBuffer(own)
		if c.lost.CompareAndSwap(false, true) {
			t.dropped.Add(1)
		}
	}
	if t.slow.took(began, time.Since(began)) && t.off.CompareAndSwap(false, true) {
		t.signal()
		go t.tooSlow() // which may wait
	}
}

// giveBytes is the largest piece of give.
const giveBytes = 32 << 10

// give takes a copy of b as soon as there is room, so its caller waits. It is false when over is closed first.
func (t *Tap) give(over <-chan struct{}, c *tapped, from gateway.Peer, at time.Time, b []byte) bool {
	for len(b) > 0 {
		n := min(len(b), giveBytes)
		own := gateway.GetBuffer(n)[:n]
		copy(own, b)
		b = b[n:]
		for !t.push(piece{conn: c, from: from, at: at, bytes: own}) {
			select {
			case <-t.freed:
			case <-over:
				return false
			}
		}
	}
	return true
}

// end tells the mirror that a connection has ended. It always fits: there are no more of these
// than connections.
func (t *Tap) end(c *tapped) {
	t.mu.Lock()
	if !t.closed {
		t.queue = append(t.queue, piece{conn: c, at: time.Now()})
	}
	t.mu.Unlock()
	t.signal()
}

func (t *Tap) push(p piece) bool {
	size := int64(cap(p.bytes)) + pieceBytes
	t.mu.Lock()
	fits := t.bytes+size <= t.limit && !t.closed
	if fits {
		t.bytes += size
		t.queue = append(t.queue, p)
	}
	t.mu.Unlock()
	if fits {
		t.signal()
	}
	return fits
}

func (t *Tap) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// take returns what is queued, in order. spare is what the last call returned. The bytes stay
// counted until they are freed.
func (t *Tap) take(spare []piece) []piece {
	clear(spare)
	t.mu.Lock()
	defer t.mu.Unlock()
	got := t.queue
	t.queue = spare[:0]
	return got
}

// free gives a piece's memory back.
func (t *Tap) free(p piece) {
	if p.bytes == nil {
		return
	}
	t.mu.Lock()
	t.bytes -= int64(cap(p.bytes)) + pieceBytes
	t.mu.Unlock()
	gateway.PutBuffer(p.bytes)
	select {
	case t.freed <- struct{}{}:
	default:
	}
}

// close makes the tap take nothing more.
func (t *Tap) close() {
	t.off.Store(true)
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.signal()
}

// discard frees what nobody will take.
func (t *Tap) discard() {
	for _, p := range t.take(nil) {
		t.free(p)
	}
}

func (t *Tap) held() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes
}

func (t *Tap) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed && len(t.queue) == 0
}

// slowness finds out that the tap itself costs production more than it may: more than one in a
// hundred pieces of a second took longer than bound.
type slowness struct {
	bound  time.Duration // 0: none
	second atomic.Int64
	pieces atomic.Int64
	late   atomic.Int64
}

// leastPieces of a second say something.
const leastPieces = 100

func (s *slowness) took(at time.Time, d time.Duration) (tooSlow bool) {
	if s.bound == 0 {
		return false
	}
	if now, old := at.Unix(), s.second.Load(); now != old && s.second.CompareAndSwap(old, now) {
		s.pieces.Store(0)
		s.late.Store(0)
	}
	n := s.pieces.Add(1)
	if d <= s.bound {
		return false
	}
	return s.late.Add(1) > max(n, leastPieces)/100
}
