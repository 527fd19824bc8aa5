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
	// firstPiece of a message has room at once, and each further piece growth times as much as
	// has come: so memory follows what comes, and of what has come a third is copied.
	firstPiece = 64 << 10
	growth     = 4
)

// Inbound is what comes in on a connection that is cut into messages: it holds a buffer while
// bytes are there, and takes what long messages need from a budget as they come. How messages are
// cut is its user's business. It belongs to one pump.
type Inbound struct {
	Conn    net.Conn
	Peer    Peer // at the other end
	Ctx     context.Context
	Account *Account     // nil: no bound
	Door    *Door        // whom messages may not come from that are long; nil: anybody's
	Idle    func() error // called before waiting for bytes; may be nil

	// Waited is how long the message at hand had to wait for memory.
	Waited time.Duration

	buf     []byte // nil while nothing is there
	at, end int    // what has been read and not handed out
	size    int    // of what was handed out last, at the front
	held    int64  // of the budget, for that
	claim   int64  // what that will be when all has come; 0: the message at hand is free
}

// Unread is what has been read and not handed out, until the next Fill.
func (r *Inbound) Unread() []byte { return r.buf[r.at:r.end] }

// Take hands out the next n bytes, which have been read. They live until Release.
func (r *Inbound) Take(n int) []byte {
	r.size = n
	return r.buf[r.at : r.at+n : r.at+n]
}

// Held reports whether the message that is read takes bytes of the budget.
func (r *Inbound) Held() bool { return r.claim > 0 }

// Expect announces a message of length bytes, in the longest of its forms: what is short on the wire may declare that
// it is long once it is decompressed. It takes cost bytes of memory when all of it has come, and nothing of the
// budget before.
func (r *Inbound) Expect(length, cost int) error {
	if err := r.Door.Admit(r.Ctx, length); err != nil {
		return err
	}
	r.Waited = 0
	if cost > FreeBytes && r.Account != nil {
		r.claim = int64(cost)
	}
	return nil
}

// Whole reads the n bytes of the message that Expect was told of, and takes what else handling it
// needs.
func (r *Inbound) Whole(n int) error {
	if err := r.Fill(n); err != nil {
		return err
	}
	return r.take(r.claim)
}

// take brings what is held for the message at hand to n bytes.
func (r *Inbound) take(n int64) error {
	if n <= r.held {
		return nil
	}
	if !r.Account.TryAcquire(n - r.held) {
		if err := r.goIdle(); err != nil {
			return err
		}
		began := time.Now()
		if err := r.Account.Grow(r.Ctx, n-r.held, r.claim-r.held); err != nil {
			return err
		}
		r.Waited += time.Since(began)
	}
	r.held = n
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
	if r.claim > 0 {
		r.Account.Release(r.held)
		r.held, r.claim = 0, 0
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
	return nil
}

// read reads once, when n bytes are wanted and are not there.
func (r *Inbound) read(n int) (int, error) {
	if r.buf == nil {
		buf, k, err := ReadNext(r.Conn, nil, inboundBytes)
		r.buf = buf
		return k, err
	}
	room := r.piece(n)
	if err := r.makeRoom(room); err != nil {
		return 0, err
	}
	limit := len(r.buf)
	if n > inboundBytes {
		limit = r.at + room // nothing of the next message in a large buffer
	}
	if r.held > 0 {
		r.Account.Await(r.Peer)
		defer r.Account.Awaited(r.Peer)
	}
	k, err := r.Conn.Read(r.buf[r.end:limit])
	if k > 0 {
		return k, nil // the error comes again
	}
	return 0, err
}

// piece is for how many of n bytes there is to be room now.
func (r *Inbound) piece(n int) int {
	have, room := r.end-r.at, len(r.buf)-r.at
	switch {
	case n <= firstPiece:
		return n
	case have < room:
		return min(n, room)
	}
	return min(n, max(firstPiece, growth*have))
}

// makeRoom makes the buffer large enough for n unread bytes.
func (r *Inbound) makeRoom(n int) error {
	switch {
	case r.at+n <= len(r.buf):
		return nil
	case n <= len(r.buf):
		copy(r.buf, r.buf[r.at:r.end])
	default:
		if err := r.take(min(int64(n), r.claim)); err != nil { // of no claim nothing
			return err
		}
		grown := GetBuffer(n)
		grown = grown[:cap(grown)]
		copy(grown, r.buf[r.at:r.end])
		PutBuffer(r.buf)
		r.buf = grown
	}
	r.at, r.end = 0, r.end-r.at
	return nil
}

// goOn decides about a read that was interrupted. Within a message a drain waits.
func (r *Inbound) goOn(err error) bool {
	if r.end == r.at || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
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
