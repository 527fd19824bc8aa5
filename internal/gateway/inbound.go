package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"
)

const (
	// inboundBytes is what a busy connection holds in each direction; an idle one holds none.
	inboundBytes = 16 << 10
	// FreeBytes of a message, in all its forms, are not taken from the budget.
	FreeBytes = 48 << 10
)

// Inbound is what comes in on a connection that is cut into messages: it holds a buffer while
// bytes are there, and takes what long messages need from a budget before it is allocated. How
// messages are cut is its user's business. It belongs to one pump.
type Inbound struct {
	Conn     net.Conn
	Ctx      context.Context
	Patience Patience
	Idle     func() error // called before waiting for bytes; may be nil

	buf     []byte // nil while nothing is there
	at, end int    // what has been read and not handed out
	size    int    // of what was handed out last, at the front
	held    int64  // of the budget, for that
}

// Unread is what has been read and not handed out, until the next Fill.
func (r *Inbound) Unread() []byte { return r.buf[r.at:r.end] }

// Take hands out the next n bytes, which have been read. They live until Release.
func (r *Inbound) Take(n int) []byte {
	r.size = n
	return r.buf[r.at : r.at+n : r.at+n]
}

// Held reports whether the budget has been asked for the message that is read.
func (r *Inbound) Held() bool { return r.held > 0 }

// Hold takes what a message will need from the budget, all of it at once and before any of it
// is allocated.
func (r *Inbound) Hold(cost int) error {
	if cost <= FreeBytes || r.Patience.Budget == nil {
		return nil
	}
	if err := r.goIdle(); err != nil {
		return err
	}
	if err := r.Patience.Budget.Acquire(r.Ctx, int64(cost)); err != nil {
		return err
	}
	r.held = int64(cost)
	return nil
}

func (r *Inbound) goIdle() error {
	if r.Idle == nil {
		return nil
	}
	return r.Idle()
}

// Release forgets the last message.
func (r *Inbound) Release() {
	r.at, r.size = r.at+r.size, 0
	if r.held > 0 {
		r.Patience.Budget.Release(r.held)
		r.held = 0
	}
	if r.buf != nil && r.at == r.end {
		PutBuffer(r.buf)
		r.buf, r.at, r.end = nil, 0, 0
	}
}

// Free gives everything back.
func (r *Inbound) Free() {
	r.Release()
	PutBuffer(r.buf)
	r.buf, r.at, r.end = nil, 0, 0
}

// Fill reads until n bytes are there.
func (r *Inbound) Fill(n int) error {
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
		_ = r.Conn.SetReadDeadline(time.Time{})
	}
	return nil
}

// read reads once, when n bytes are wanted and are not there.
func (r *Inbound) read(n int) (int, error) {
	if r.buf == nil {
		buf, k, err := ReadFirst(r.Conn, inboundBytes)
		r.buf = buf
		return k, err
	}
	r.makeRoom(n)
	limit := len(r.buf)
	if n > inboundBytes {
		limit = r.at + n // nothing of the next message in a large buffer
	}
	if r.held > 0 {
		_ = r.Conn.SetReadDeadline(r.Patience.Deadline())
	}
	k, err := r.Conn.Read(r.buf[r.end:limit])
	if k > 0 {
		return k, nil // the error comes again
	}
	return 0, err
}

// makeRoom makes the buffer large enough for n unread bytes.
func (r *Inbound) makeRoom(n int) {
	switch {
	case r.at+n <= len(r.buf):
		return
	case n <= len(r.buf):
		copy(r.buf, r.buf[r.at:r.end])
	default:
		grown := GetBuffer(n)
		grown = grown[:cap(grown)]
		copy(grown, r.buf[r.at:r.end])
		PutBuffer(r.buf)
		r.buf = grown
	}
	r.at, r.end = 0, r.end-r.at
}

// goOn decides about a read that was interrupted. Within a message a drain waits.
func (r *Inbound) goOn(err error) bool {
	if r.end == r.at || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	if r.held > 0 {
		return r.Patience.Tolerates()
	}
	return r.Conn.SetReadDeadline(time.Time{}) == nil
}

// cut tells an end within a message from one between two.
func (r *Inbound) cut(err error) error {
	if errors.Is(err, io.EOF) && r.end > r.at {
		return io.ErrUnexpectedEOF
	}
	return err
}
