package grpc

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

// errReplaced is returned to the reader of an abandoned attempt.
var errReplaced = errors.New("the attempt was replaced by another")

// replayBuffer records the body of a request, so that another attempt can read it from the beginning: on
// another connection or in another encoding. It records until stop is called or the body exceeds its limit;
// then only the current attempt can go on.
//
// A body that has arrived completely is sent from the buffer (see whole). Otherwise the buffer's own
// goroutine reads the client's bytes, one piece when an attempt asks for it. Attempts must be able to stop
// waiting for them: otherwise the transport would not report that its connection broke. Bytes that arrive
// later go to the next attempt.
type replayBuffer struct {
	src    io.Reader
	memory *replayMemory
	limit  int
	faults http2.Faults

	mu        sync.Mutex
	changed   sync.Cond // signals changes of the fields below
	recording bool
	kept      []byte // the body from its beginning; nil when no longer needed
	held      int64  // bytes taken of memory
	fresh     []byte // the last bytes, if they are not in kept
	piece     []byte // the buffer that contains fresh
	err       error  // error or io.EOF of src
	pumping   bool   // pump runs
	wanted    bool   // a reader waits for bytes
	attempt   int
	closed    bool
}

// replayReader reads the body for one attempt.
type replayReader struct {
	b       *replayBuffer
	attempt int
	at      int  // offset in kept
	stopped bool // guarded by b.mu
}

// replayMemory counts the bytes of recorded requests of a gateway.
type replayMemory struct{ inUse atomic.Int64 }

// take takes n bytes if they are available. Subtracting from inUse gives them back.
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

// whole returns the body if it has arrived completely and is not longer than the limit. The body still
// belongs to the buffer.
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
	// The body is kept until the call ends, so memory must be available for it.
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

// rewind starts another attempt. It reports false if the beginning of the body is no longer available.
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

// stop ends the recording, because there will be no other attempt. The recorded bytes are dropped when the
// reader has read them.
func (b *replayBuffer) stop() {
	b.mu.Lock()
	b.recording = false
	b.changed.Broadcast()
	b.mu.Unlock()
}

// close ends the current attempt and frees all buffers.
func (b *replayBuffer) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.recording = true, false
	b.drop()
	memory.PutBuffer(b.piece)
	b.piece, b.fresh = nil, nil
	b.changed.Broadcast()
}

// drop frees the recorded bytes. b.mu must be held.
func (b *replayBuffer) drop() {
	b.memory.inUse.Add(-b.held)
	memory.PutBuffer(b.kept)
	b.kept, b.held = nil, 0
}

// pump reads the client's bytes, one piece whenever a reader asks, until the body or the call ends. Reading
// may decompress messages, and a panic there becomes an error of the call.
func (b *replayBuffer) pump() {
	defer gateway.CatchPanic(b.faults.Log, b.faults.Stats, func() { b.add(nil, 0, gateway.ErrPanicked) })
	for b.awaitReader() {
		var buf []byte
		n, err := readFirst(b.src, &buf, 0)
		b.add(buf, n, err)
	}
}

// awaitReader waits until a reader asks for bytes. It reports false when no more will be read.
func (b *replayBuffer) awaitReader() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.wanted && b.err == nil && !b.closed {
		b.changed.Wait()
	}
	b.pumping = b.err == nil && !b.closed
	return b.pumping
}

// add stores a piece: the first n bytes of buf, which it takes over, and the error of reading it.
func (b *replayBuffer) add(buf []byte, n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wanted, b.err = false, err
	if b.closed || b.recording && b.keep(buf[:n]) {
		memory.PutBuffer(buf)
	} else { // only the current attempt can go on
		b.recording = false
		b.piece, b.fresh = buf, buf[:n]
	}
	b.changed.Broadcast()
}

// keep appends p to the recorded bytes. It reports false if that exceeds the limit or the budget. b.mu must
// be held.
func (b *replayBuffer) keep(p []byte) bool {
	need := len(b.kept) + len(p)
	if need > b.limit {
		return false
	}
	if need > cap(b.kept) {
		grown := memory.GetBuffer(max(need, min(2*cap(b.kept), b.limit)))
		size := int64(cap(grown))
		if !b.memory.take(size) {
			memory.PutBuffer(grown)
			return false
		}
		grown = append(grown, b.kept...)
		b.drop()
		b.kept, b.held = grown, size
	}
	b.kept = append(b.kept, p...)
	return true
}

// Read returns recorded bytes first, and then bytes from the client. If none have arrived it asks for some
// and waits.
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
		case len(b.fresh) > 0: // no other attempt will read them
			n := copy(p, b.fresh)
			if b.fresh = b.fresh[n:]; len(b.fresh) == 0 {
				memory.PutBuffer(b.piece)
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

// copyBytes is the buffer size for one direction of a call.
const copyBytes = 16 << 10

// readFirst reads into buf after its first have bytes. If buf is nil it first waits for bytes, and then allocates it:
// a Read of package http2's bodies waits even with an empty buffer. Other readers do not wait, so that the buffer is
// allocated earlier.
func readFirst(from io.Reader, buf *[]byte, have int) (int, error) {
	if *buf == nil {
		if _, err := from.Read(nil); err != nil {
			return 0, err
		}
		*buf = memory.GetBuffer(copyBytes)[:copyBytes]
	}
	return from.Read((*buf)[have:])
}

// wholeReader is implemented by package http2's bodies.
type wholeReader interface {
	ReadWhole(most int) (body []byte, ok bool)
}

// isComplete reports whether all of a body has arrived, so that no read will wait.
func isComplete(body io.Reader) bool {
	b, ok := body.(interface{ Complete() bool })
	return ok && b.Complete()
}

// fill reads until p is full. Unlike io.ReadFull it returns errors unchanged: the transport returns
// io.ErrUnexpectedEOF when a connection breaks.
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

// messageSplitter decides which bytes of a body to forward now. Messages that fit the buffer are forwarded
// when they are complete: a reader can't use less, and if the upstream's connection breaks within a message,
// the client should get a status and not part of a message, which it would take for an error of its peer.
// Longer messages are forwarded in pieces.
type messageSplitter struct {
	passing int // bytes of a long message that are still to come
}

// ready returns how many bytes of b to forward now. b holds the bytes that were not forwarded yet, and fits a
// buffer of size bytes.
func (w *messageSplitter) ready(b []byte, size int) int {
	at := min(w.passing, len(b))
	w.passing -= at
	for len(b)-at >= wire.HeaderLen {
		h, _ := wire.ParseHeader(b[at:]) // the client decides about an unknown flag
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

// messageCounter passes a body of messages through, and counts them.
type messageCounter struct {
	src   io.Reader
	scan  wire.Scanner
	begun int
	ended atomic.Int64 // number of messages once the body has ended; 0 before
}

func (c *messageCounter) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	// The server decides about an unknown flag. What follows it can't be parsed.
	if c.scan.Scan(p[:n], func(wire.Header) { c.begun++ }) != nil {
		c.begun = 2
	}
	if err == io.EOF {
		c.ended.Store(int64(c.begun))
	}
	return n, err
}

// isSingle reports whether the body has ended after exactly one message.
func (c *messageCounter) isSingle() bool { return c.ended.Load() == 1 }
