package grpc

import (
	"errors"
	"io"
	"sync"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// errReplaced is what the reader of an abandoned attempt gets.
var errReplaced = errors.New("the attempt was replaced by another")

// tape is the client's side of a call as the attempts to deliver it read it. As long as it
// records, what was read can be read again from the beginning: by another attempt, on
// another connection or with another encoding. It records until stop, or until it is longer
// than its limit, and then the attempt at work goes on alone.
//
// An attempt may be stuck in a read of the client's bytes when it is abandoned. What it
// gets then is recorded for its successor, which waits for it.
type tape struct {
	src    io.Reader
	budget *gateway.Budget

	mu        sync.Mutex
	changed   sync.Cond // reading has ended, or the attempt at work is another one
	limit     int
	recording bool
	kept      []byte // from the body's beginning; nil when nobody needs it any more
	held      int64  // of the budget
	err       error  // of src, at its end
	reading   bool   // somebody reads src, without the lock
	attempt   int
	closed    bool
}

// tapeReader is an attempt's view of a tape.
type tapeReader struct {
	t       *tape
	attempt int
	at      int // in kept
}

func newTape(src io.Reader, limit int, budget *gateway.Budget) *tape {
	t := &tape{src: src, budget: budget, limit: limit, recording: true}
	t.changed.L = &t.mu
	return t
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

// stop ends the recording: there will be no other attempt.
func (t *tape) stop() {
	t.mu.Lock()
	t.recording = false
	t.mu.Unlock()
}

// close frees what is kept. No attempt may be at work, or only one that is to fail.
func (t *tape) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attempt++
	t.recording, t.closed = false, true
	if t.err == nil {
		t.err = errReplaced
	}
	t.drop()
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

// keep appends to what is kept, or gives up recording when that is too much. t.mu is held.
func (t *tape) keep(p []byte) {
	if len(t.kept)+len(p) > t.limit || !t.grow(len(p)) {
		t.recording = false
		return
	}
	t.kept = append(t.kept, p...)
}

// grow makes room for n bytes, within the budget.
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
		case r.attempt != t.attempt:
			return 0, errReplaced
		case r.at < len(t.kept):
			n := copy(p, t.kept[r.at:])
			r.at += n
			return n, nil
		case t.err != nil:
			return 0, t.err
		case !t.reading:
			return r.readSource(p)
		}
		t.changed.Wait()
	}
}

// readSource reads the client's bytes. t.mu is held, but not while it waits for them.
func (r *tapeReader) readSource(p []byte) (int, error) {
	t := r.t
	if !t.recording && t.kept != nil {
		t.drop()
		r.at = 0
	}
	t.reading = true
	t.mu.Unlock()
	n, err := t.src.Read(p)
	t.mu.Lock()
	t.reading = false
	t.changed.Broadcast()
	if t.err == nil {
		t.err = err
	}
	if r.attempt != t.attempt {
		// This is for the successor, which waits for it, so it is kept whatever the limit
		// says and whether or not there will be another attempt.
		if !t.closed {
			t.kept = append(t.kept, p[:n]...)
		}
		return 0, errReplaced
	}
	if t.recording {
		t.keep(p[:n])
		r.at = len(t.kept)
	}
	if n > 0 {
		return n, nil
	}
	return 0, err
}
