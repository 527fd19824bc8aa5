package tarantool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

const (
	// bufferBytes is what a busy connection holds in each direction; an idle one holds none.
	bufferBytes = 16 << 10
	// freeBytes of a frame, in all its forms, are not taken from the budget.
	freeBytes = 48 << 10
	// maxFrame is the longest frame in bytes that is taken, from either side.
	maxFrame = 512 << 20
)

var errTooLarge = fmt.Errorf("%w: over %d bytes", wire.ErrTooLarge, maxFrame)

// frame is one frame as it came. Its bytes live until the next one is read.
type frame struct {
	bytes  []byte // with the length in front
	prefix int    // bytes of that
	held   bool   // its bytes are taken from the budget
}

// body is the frame without the length in front.
func (f *frame) body() []byte { return f.bytes[f.prefix:] }

// reader cuts one connection into frames. It belongs to one pump.
type reader struct {
	conn     net.Conn
	ctx      context.Context
	patience gateway.Patience
	copies   int          // how many times a frame's length it takes to handle it
	idle     func() error // called before waiting for bytes

	buf     []byte // nil while nothing is there
	at, end int    // what has been read and not handed out
	size    int    // of the frame that was handed out last, at the front
	held    int64  // of the budget, for that frame
}

// next reads one frame. The one before must not be used any more. An error at the end of a
// frame is io.EOF or os.ErrDeadlineExceeded; both leave the reader as it was.
func (r *reader) next() (f frame, err error) {
	r.release()
	n, prefix, err := r.length()
	if err != nil {
		return f, err
	}
	if n > maxFrame {
		return f, fmt.Errorf("%w: %d", errTooLarge, n)
	}
	if err := r.hold(r.copies * n); err != nil {
		return f, err
	}
	if err := r.fill(prefix + n); err != nil {
		return f, err
	}
	r.size = prefix + n
	return frame{bytes: r.buf[r.at : r.at+r.size : r.at+r.size], prefix: prefix, held: r.held > 0}, nil
}

// length reads the length in front of a frame.
func (r *reader) length() (n, prefix int, err error) {
	for {
		n, prefix, err = wire.Prefix(r.buf[r.at:r.end])
		if err != nil || prefix > 0 {
			return n, prefix, err
		}
		if err = r.fill(r.end - r.at + 1); err != nil {
			return 0, 0, err
		}
	}
}

// raw reads exactly n bytes, which are no frame.
func (r *reader) raw(n int) ([]byte, error) {
	r.release()
	if err := r.fill(n); err != nil {
		return nil, err
	}
	r.size = n
	return r.buf[r.at : r.at+n], nil
}

// rest hands out what has been read already; the reader is empty then.
func (r *reader) rest() []byte {
	r.release()
	r.size = r.end - r.at
	return r.buf[r.at:r.end]
}

// hold takes what a frame will need from the budget, all of it at once and before any of it
// is allocated.
func (r *reader) hold(cost int) error {
	if cost <= freeBytes || r.patience.Budget == nil {
		return nil
	}
	if err := r.goIdle(); err != nil {
		return err
	}
	if err := r.patience.Budget.Acquire(r.ctx, int64(cost)); err != nil {
		return err
	}
	r.held = int64(cost)
	return nil
}

func (r *reader) goIdle() error {
	if r.idle == nil {
		return nil
	}
	return r.idle()
}

// release forgets the last frame.
func (r *reader) release() {
	r.at, r.size = r.at+r.size, 0
	if r.held > 0 {
		r.patience.Budget.Release(r.held)
		r.held = 0
	}
	if r.buf != nil && r.at == r.end {
		gateway.PutBuffer(r.buf)
		r.buf, r.at, r.end = nil, 0, 0
	}
}

// free gives everything back.
func (r *reader) free() {
	r.release()
	gateway.PutBuffer(r.buf)
	r.buf, r.at, r.end = nil, 0, 0
}

// fill reads until n bytes are there.
func (r *reader) fill(n int) error {
	if r.end-r.at >= n {
		return nil
	}
	if err := r.goIdle(); err != nil {
		return err
	}
	for r.end-r.at < n {
		k, err := r.read(n)
		if err != nil && !r.goOn(err) {
			return r.cut(err)
		}
		r.end += k
	}
	if r.held > 0 {
		_ = r.conn.SetReadDeadline(time.Time{})
	}
	return nil
}

// read reads once, when n bytes are wanted and are not there.
func (r *reader) read(n int) (int, error) {
	if r.buf == nil {
		buf, k, err := gateway.ReadFirst(r.conn, bufferBytes)
		r.buf = buf
		return k, err
	}
	r.makeRoom(n)
	limit := len(r.buf)
	if n > bufferBytes {
		limit = r.at + n // nothing of the next frame in a large buffer
	}
	if r.held > 0 {
		_ = r.conn.SetReadDeadline(r.patience.Deadline())
	}
	k, err := r.conn.Read(r.buf[r.end:limit])
	if k > 0 {
		return k, nil // the error comes again
	}
	return 0, err
}

// makeRoom makes the buffer large enough for n unread bytes.
func (r *reader) makeRoom(n int) {
	switch {
	case r.at+n <= len(r.buf):
		return
	case n <= len(r.buf):
		copy(r.buf, r.buf[r.at:r.end])
	default:
		grown := gateway.GetBuffer(n)
		grown = grown[:cap(grown)]
		copy(grown, r.buf[r.at:r.end])
		gateway.PutBuffer(r.buf)
		r.buf = grown
	}
	r.at, r.end = 0, r.end-r.at
}

// goOn decides about a read that was interrupted. Within a frame a drain waits.
func (r *reader) goOn(err error) bool {
	if r.end == r.at || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	if r.held > 0 {
		return r.patience.Tolerates()
	}
	return r.conn.SetReadDeadline(time.Time{}) == nil
}

// cut tells an end within a frame from one between two.
func (r *reader) cut(err error) error {
	if errors.Is(err, io.EOF) && r.end > r.at {
		return io.ErrUnexpectedEOF
	}
	return err
}
