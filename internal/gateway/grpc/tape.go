package grpc

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/h2"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

// errReplaced is what the reader of an abandoned attempt gets.
var errReplaced = errors.New("the attempt was replaced by another")

// tape is the client's side of a call as the attempts to deliver it read it. As long as it
// records, what was read can be read again from the beginning: by another attempt, on
// another connection or with another encoding. It records until stop, or until it is longer
// than its limit, and then the attempt at work goes on alone.
//
// The client's bytes are read by a goroutine of the tape's own, unless they are all here already, a piece at a
// time and only when somebody wants one: an attempt must be able to give up waiting for them, or the
// transport would not tell us that its connection broke, and what comes then is for the next
// attempt.
type tape struct {
	src    io.Reader
	budget *gateway.Budget
	limit  int
	faults h2.Faults

	mu        sync.Mutex
	changed   sync.Cond // anything below
	recording bool
	kept      []byte // from the body's beginning; nil when nobody needs it any more
	held      int64  // of the budget
	fresh     []byte // what came last, when it is not in kept
	piece     []byte // the buffer that fresh lies in
	err       error  // of src, at its end
	pumping   bool
	wanted    bool // a reader waits for more
	attempt   int
	closed    bool
}

// tapeReader is an attempt's view of a tape.
type tapeReader struct {
	t       *tape
	attempt int
	at      int  // in kept
	stopped bool // guarded by t.mu
}

func newTape(src io.Reader, limit int, budget *gateway.Budget) *tape {
	t := &tape{}
	t.begin(src, limit, budget)
	return t
}

func (t *tape) begin(src io.Reader, limit int, budget *gateway.Budget) {
	t.src, t.budget, t.limit, t.recording = src, budget, limit, true
	t.changed.L = &t.mu
}

// rewind starts another attempt. It reports false when what was read is gone.
func (t *tape) rewind() (*tapeReader, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.recording {
		return nil, false
	}
	t.attempt++
	t.changed.Broadcast()
	return &tapeReader{t: t, attempt: t.attempt}, true
}

// stop ends the recording: there will be no other attempt. A reader that waits drops what was
// kept, as one that comes to its end does.
func (t *tape) stop() {
	t.mu.Lock()
	t.recording = false
	t.changed.Broadcast()
	t.mu.Unlock()
}

// close ends the attempt at work and frees what is kept.
func (t *tape) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed, t.recording = true, false
	t.drop()
	gateway.PutBuffer(t.piece)
	t.piece, t.fresh = nil, nil
	t.changed.Broadcast()
}

// room is how many more bytes can be replayed, 0 when nothing can.
func (t *tape) room() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.recording {
		return 0
	}
	return max(t.limit-len(t.kept), 0)
}

// drop forgets what is kept. t.mu is held.
func (t *tape) drop() {
	t.budget.Release(t.held)
	gateway.PutBuffer(t.kept)
	t.kept, t.held = nil, 0
}

// pump reads the client's bytes until they end or the call does.
func (t *tape) pump() {
	defer gateway.CatchPanic(t.faults.Log, t.faults.Stats, func() { t.fail(gateway.ErrPanicked) })
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.err == nil && !t.closed {
		if !t.wanted {
			t.changed.Wait()
			continue
		}
		t.readPiece()
	}
}

// readPiece reads some of the client's bytes. t.mu is held, but not while it reads.
func (t *tape) readPiece() {
	var buf []byte
	n, err := t.readSource(&buf)
	t.wanted = false
	t.err = err
	if t.closed || t.recording && t.keep(buf[:n]) {
		gateway.PutBuffer(buf)
	} else { // this attempt goes on alone
		t.recording = false
		t.piece, t.fresh = buf, buf[:n]
	}
	t.changed.Broadcast()
}

// readSource reads the client's body, where messages may be decoded: a panic is an error of the call. t.mu is held before and
// behind it.
func (t *tape) readSource(buf *[]byte) (n int, err error) {
	t.mu.Unlock()
	defer t.mu.Lock()
	defer gateway.CatchPanic(t.faults.Log, t.faults.Stats, func() { n, err = 0, gateway.ErrPanicked })
	return readFirst(t.src, buf, 0)
}

// fail ends what can be read.
func (t *tape) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
	t.changed.Broadcast()
}

// keep appends to what is kept, unless that is too much for the limit or the budget. t.mu is held.
func (t *tape) keep(p []byte) bool {
	need := len(t.kept) + len(p)
	if need > t.limit {
		return false
	}
	if need > cap(t.kept) {
		grown := gateway.GetBuffer(max(need, min(2*cap(t.kept), t.limit)))
		size := int64(cap(grown))
		if !t.budget.TryAcquire(size) {
			gateway.PutBuffer(grown)
			return false
		}
		grown = append(grown, t.kept...)
		t.drop()
		t.kept, t.held = grown, size
	}
	t.kept = append(t.kept, p...)
	return true
}

// Read reads what is kept, and behind that the client's bytes. Where there are none yet it asks for some, and waits.
func (r *tapeReader) Read(p []byte) (int, error) {
	t := r.t
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		switch {
		case r.stopped || t.closed || r.attempt != t.attempt:
			return 0, errReplaced
		case r.at < len(t.kept):
			n := copy(p, t.kept[r.at:])
			r.at += n
			return n, nil
		case len(t.fresh) > 0: // which no other attempt will read
			n := copy(p, t.fresh)
			if t.fresh = t.fresh[n:]; len(t.fresh) == 0 {
				gateway.PutBuffer(t.piece)
				t.piece, t.fresh = nil, nil
			}
			return n, nil
		case t.err != nil:
			return 0, t.err
		}
		if !t.recording && t.kept != nil {
			t.drop()
			r.at = 0
		}
		if !t.pumping {
			t.pumping = true
			if isComplete(t.src) { // so nobody has to wait in our place
				t.readPiece()
				t.pumping = false
				continue
			}
			go t.pump()
		}
		if !t.wanted {
			t.wanted = true
			t.changed.Broadcast()
		}
		t.changed.Wait()
	}
}

// copyBytes is what one direction of a call moves at a time.
const copyBytes = 16 << 10

// readFirst reads into buf behind have bytes. Where there is no buffer it waits for bytes
// before it takes one: package h2's bodies do that when they are asked for none. With other readers
// it only takes it earlier.
func readFirst(from io.Reader, buf *[]byte, have int) (int, error) {
	if *buf == nil {
		if _, err := from.Read(nil); err != nil {
			return 0, err
		}
		*buf = gateway.GetBuffer(copyBytes)[:copyBytes]
	}
	return from.Read((*buf)[have:])
}

// isComplete reports whether all of a body is here already: no read will wait.
func isComplete(body io.Reader) bool {
	b, ok := body.(interface{ Complete() bool })
	return ok && b.Complete()
}

// fill reads until p is full. Unlike io.ReadFull it leaves errors as they are: the transport
// says io.ErrUnexpectedEOF when a connection breaks.
func fill(src io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var more int
		more, err = src.Read(p[n:])
		n += more
	}
	if n == len(p) {
		err = nil
	}
	return n, err
}

// wholes tells which bytes of a body to hand on now. Messages that fit the buffer go when they
// are whole: nobody can use less, and when the upstream's connection breaks within one, the
// client should find a status and not a piece of a message, which it would take for an error
// of its peer's. Longer ones go piece by piece.
type wholes struct {
	passing int // bytes of a long message that are still to come
}

// ready returns how much of b, which holds what was not handed on before and fits a buffer of
// size bytes, goes now.
func (w *wholes) ready(b []byte, size int) int {
	at := min(w.passing, len(b))
	w.passing -= at
	for len(b)-at >= wire.HeaderLen {
		h, _ := wire.ParseHeader(b[at:]) // a strange flag is the client's to judge
		n := wire.HeaderLen + int(h.Len)
		switch {
		case n <= len(b)-at:
			at += n
		case n > size:
			w.passing = n - (len(b) - at)
			return len(b)
		default:
			return at
		}
	}
	return at
}

// counter hands on a body of messages, and counts them.
type counter struct {
	src     io.Reader
	header  []byte // of the next message, as much as there is
	passing int
	begun   int
	ended   atomic.Int64 // messages, once the body has ended; 0: it has not
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	for b := p[:n]; len(b) > 0; {
		if skip := min(c.passing, len(b)); skip > 0 {
			c.passing -= skip
			b = b[skip:]
			continue
		}
		c.header = append(c.header, b[0])
		b = b[1:]
		if len(c.header) == wire.HeaderLen {
			h, _ := wire.ParseHeader(c.header)
			c.header, c.passing = c.header[:0], int(h.Len)
			c.begun++
		}
	}
	if err == io.EOF {
		c.ended.Store(int64(c.begun))
	}
	return n, err
}

// one reports whether the body has ended after one message.
func (c *counter) one() bool { return c.ended.Load() == 1 }
