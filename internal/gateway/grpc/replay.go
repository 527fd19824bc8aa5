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

// replayBuffer records the body of a request, so that another attempt to deliver it can read it from the beginning: on
// another connection or with another encoding. It records until stop, or until it is longer
// than its limit, and then the current attempt goes on alone.
//
// Where all of it is here already it is sent from the buffer (see whole). Else the client's bytes are read by a goroutine of the
// buffer's own, a piece at a time and only when an attempt wants one: that must be able to give up waiting for them, or the transport
// would not report that its connection broke, and what comes then is for the next attempt.
type replayBuffer struct {
	src    io.Reader
	memory *replayMemory
	limit  int
	faults h2.Faults

	mu        sync.Mutex
	changed   sync.Cond // anything below
	recording bool
	kept      []byte // from the body's beginning; nil when nobody needs it any more
	held      int64  // of memory
	fresh     []byte // what came last, when it is not in kept
	piece     []byte // the buffer that fresh lies in
	err       error  // of src, at its end
	pumping   bool
	wanted    bool // a reader waits for more
	attempt   int
	closed    bool
}

// replayReader reads the buffer for one attempt.
type replayReader struct {
	b       *replayBuffer
	attempt int
	at      int  // in kept
	stopped bool // guarded by b.mu
}

// replayMemory counts the bytes that a gateway keeps of requests.
type replayMemory struct{ inUse atomic.Int64 }

// take takes n bytes if they are free. inUse.Add gives them back.
func (m *replayMemory) take(n int64) bool {
	free := m.inUse.Add(n) <= replayBudget
	if !free {
		m.inUse.Add(-n)
	}
	return free
}

func (b *replayBuffer) begin(src io.Reader, limit int, memory *replayMemory) {
	b.src, b.memory, b.limit, b.recording = src, memory, limit, true
	b.changed.L = &b.mu
}

// whole returns the body, which stays the buffer's, if all of it has come by now and is not longer than the limit.
func (b *replayBuffer) whole() (body []byte, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	src, ok := b.src.(wholeReader)
	if !ok || b.err != nil || b.pumping {
		if body = b.kept; body == nil {
			body = []byte{}
		}
		return body, b.recording && b.err == io.EOF
	}
	// It is kept until the call ends, so there has to be memory for it first.
	reserved := 2 * int64(b.limit)
	if !b.memory.take(reserved) {
		return nil, false
	}
	if body, ok = src.ReadWhole(b.limit); ok {
		b.kept, b.err, b.held = body, io.EOF, int64(cap(body))
	}
	b.memory.inUse.Add(b.held - reserved)
	return body, ok
}

// rewind starts another attempt. It reports false when what was read is gone.
func (b *replayBuffer) rewind() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.recording {
		b.attempt++
		b.changed.Broadcast()
	}
	return b.recording
}

// reader returns a reader for the current attempt.
func (b *replayBuffer) reader() replayReader { return replayReader{b: b, attempt: b.attempt} }

// stop ends the recording: there will be no other attempt. A reader that waits drops what was
// kept, as one that comes to its end does.
func (b *replayBuffer) stop() {
	b.mu.Lock()
	b.recording = false
	b.changed.Broadcast()
	b.mu.Unlock()
}

// close ends the attempt at work and frees what is kept.
func (b *replayBuffer) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.recording = true, false
	b.drop()
	gateway.PutBuffer(b.piece)
	b.piece, b.fresh = nil, nil
	b.changed.Broadcast()
}

// drop forgets what is kept. b.mu is held.
func (b *replayBuffer) drop() {
	b.memory.inUse.Add(-b.held)
	gateway.PutBuffer(b.kept)
	b.kept, b.held = nil, 0
}

// pump reads the client's bytes, a piece whenever a reader wants one, until they end or the call does. Messages may be decoded below: a
// panic is an error of the call.
func (b *replayBuffer) pump() {
	defer gateway.CatchPanic(b.faults.Log, b.faults.Stats, func() { b.add(nil, 0, gateway.ErrPanicked) })
	for b.awaitReader() {
		var buf []byte
		n, err := readFirst(b.src, &buf, 0)
		b.add(buf, n, err)
	}
}

// awaitReader waits until a reader wants more. It reports false when there will be no more.
func (b *replayBuffer) awaitReader() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.wanted && b.err == nil && !b.closed {
		b.changed.Wait()
	}
	return b.err == nil && !b.closed
}

// add takes a buffer with n of the client's bytes.
func (b *replayBuffer) add(buf []byte, n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wanted, b.err = false, err
	if b.closed || b.recording && b.keep(buf[:n]) {
		gateway.PutBuffer(buf)
	} else { // this attempt goes on alone
		b.recording = false
		b.piece, b.fresh = buf, buf[:n]
	}
	b.changed.Broadcast()
}

// keep appends to what is kept, unless that is too much for the limit or the budget. b.mu is held.
func (b *replayBuffer) keep(p []byte) bool {
	need := len(b.kept) + len(p)
	if need > b.limit {
		return false
	}
	if need > cap(b.kept) {
		grown := gateway.GetBuffer(max(need, min(2*cap(b.kept), b.limit)))
		size := int64(cap(grown))
		if !b.memory.take(size) {
			gateway.PutBuffer(grown)
			return false
		}
		grown = append(grown, b.kept...)
		b.drop()
		b.kept, b.held = grown, size
	}
	b.kept = append(b.kept, p...)
	return true
}

// Read reads what is kept, and behind that the client's bytes. Where there are none yet it asks for some, and waits.
func (r *replayReader) Read(p []byte) (int, error) {
	b := r.b
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		switch {
		case r.stopped || b.closed || r.attempt != b.attempt:
			return 0, errReplaced
		case r.at < len(b.kept):
			n := copy(p, b.kept[r.at:])
			r.at += n
			return n, nil
		case len(b.fresh) > 0: // which no other attempt will read
			n := copy(p, b.fresh)
			if b.fresh = b.fresh[n:]; len(b.fresh) == 0 {
				gateway.PutBuffer(b.piece)
				b.piece, b.fresh = nil, nil
			}
			return n, nil
		case b.err != nil:
			return 0, b.err
		}
		if !b.recording && b.kept != nil {
			b.drop()
			r.at = 0
		}
		if !b.pumping {
			b.pumping = true
			go b.pump()
		}
		if !b.wanted {
			b.wanted = true
			b.changed.Broadcast()
		}
		b.changed.Wait()
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

// wholeReader is a body of package h2's.
type wholeReader interface {
	ReadWhole(most int) (body []byte, ok bool)
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
	src   io.Reader
	scan  wire.Scanner
	begun int
	ended atomic.Int64 // messages, once the body has ended; 0: it has not
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	if c.scan.Scan(p[:n], func(wire.Header) { c.begun++ }) != nil { // a strange flag is the server's to judge, and what follows is not known
		c.begun = 2
	}
	if err == io.EOF {
		c.ended.Store(int64(c.begun))
	}
	return n, err
}

// one reports whether the body has ended after one message.
func (c *counter) one() bool { return c.ended.Load() == 1 }
