package grpc

import (
	"errors"
	"io"
	"sync"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/h2"
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
	t.dropPiece()
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

func (t *tape) dropPiece() {
	gateway.PutBuffer(t.piece)
	t.piece, t.fresh = nil, nil
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
	t.take(buf, n)
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

// complete reports whether all of the client's bytes are here: reading them will not wait.
func (t *tape) complete() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err != nil || isComplete(t.src)
}

// take stores n bytes that came, all before which was read. t.mu is held.
func (t *tape) take(buf []byte, n int) {
	if t.recording && t.keep(buf[:n]) || t.closed {
		gateway.PutBuffer(buf)
		return
	}
	t.recording = false
	t.piece, t.fresh = buf, buf[:n]
}

// keep appends to what is kept, unless that is too much. t.mu is held.
func (t *tape) keep(p []byte) bool {
	if len(t.kept)+len(p) > t.limit || !t.grow(len(p)) {
		return false
	}
	t.kept = append(t.kept, p...)
	return true
}

// grow makes room for n bytes, within the budget. t.mu is held.
func (t *tape) grow(n int) bool {
	need := len(t.kept) + n
	if need <= cap(t.kept) {
		return true
	}
	grown := gateway.GetBuffer(max(need, min(2*cap(t.kept), t.limit)))
	size := int64(cap(grown))
	if !t.budget.TryAcquire(size) {
		gateway.PutBuffer(grown)
		return false
	}
	grown = append(grown, t.kept...)
	t.drop()
	t.kept, t.held = grown, size
	return true
}

// Read reads what is kept, and behind that the client's bytes.
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
		case len(t.fresh) > 0:
			return r.readFresh(p), nil
		case t.err != nil:
			return 0, t.err
		}
		r.want()
	}
}

// readFresh reads what nobody else will. t.mu is held.
func (r *tapeReader) readFresh(p []byte) int {
	t := r.t
	n := copy(p, t.fresh)
	if t.fresh = t.fresh[n:]; len(t.fresh) == 0 {
		t.dropPiece()
	}
	return n
}

// want asks for more, and waits for a change. t.mu is held, but not while it waits.
func (r *tapeReader) want() {
	t := r.t
	if !t.recording && t.kept != nil {
		t.drop()
		r.at = 0
	}
	if !t.pumping {
		t.pumping = true
		if isComplete(t.src) { // so nobody has to wait in our place
			t.readPiece()
			t.pumping = false
			return
		}
		go t.pump()
	}
	if !t.wanted {
		t.wanted = true
		t.changed.Broadcast()
	}
	t.changed.Wait()
}

// stop ends the attempt's reading, wherever it is.
func (r *tapeReader) stop() {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	r.stopped = true
	r.t.changed.Broadcast()
}
