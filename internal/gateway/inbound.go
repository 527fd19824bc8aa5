package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

const (
	// inboundBytes is the buffer size of a busy connection, for each direction; an idle connection holds
	// none.
	inboundBytes = 16 << 10
	// FreeBytes is the memory that a message may take, in all its forms, without counting in the budget.
	FreeBytes = 48 << 10
	// initialRoom is the room made at first for a longer message. The buffer then grows to growthFactor times the bytes
	// that have come. So memory follows the bytes received, and all copies for growing add up to a third of them.
	initialRoom  = 64 << 10
	growthFactor = 4
)

// Inbound reads messages from a connection. It holds a buffer only while it has unread bytes, and
// takes memory for long messages from a budget as their bytes come. The caller decides where messages begin and
// end. An Inbound belongs to one goroutine.
type Inbound struct {
	Conn     net.Conn
	Peer     memory.Peer // at the other end
	Ctx      context.Context
	Account  *memory.Account // nil: no limit
	AuthGate *AuthGate       // limits messages before login; nil: no limit
	Idle     func() error    // called before waiting for bytes; may be nil

	// Waited is the time that the current message waited for memory.
	Waited time.Duration

	buf     []byte // nil while there are no unread bytes
	at, end int    // bounds of the unread bytes in buf
	size    int    // number of bytes, from at on, that Take returned
	held    int64  // bytes of the budget that the current message holds
	claim   int64  // bytes of the budget that it holds when all of it has come; 0: it is not counted
}

// Prepend makes b, which was read from the connection before, the first unread bytes. It copies b, which must not be
// longer than inboundBytes.
func (r *Inbound) Prepend(b []byte) {
	r.buf = memory.GetBuffer(inboundBytes)
	r.buf = r.buf[:cap(r.buf)]
	r.at, r.end = 0, copy(r.buf, b)
}

// Unread returns the bytes read but not released. They are valid until the next Fill.
func (r *Inbound) Unread() []byte { return r.buf[r.at:r.end] }

// Take returns the next n bytes, which must have been read. They are valid until Release.
func (r *Inbound) Take(n int) []byte {
	r.size = n
	return r.buf[r.at : r.at+n : r.at+n]
}

// IsBudgeted reports whether the current message counts in the budget.
func (r *Inbound) IsBudgeted() bool { return r.claim > 0 }

// Expect announces the next message. length is its size in bytes, or its decompressed size if that is larger. cost
// is the memory in bytes that it takes when all of it has come. Expect itself takes nothing from the budget. It
// returns ErrUnauthenticated if the client must log in before it sends so long a message.
func (r *Inbound) Expect(length, cost int) error {
	if err := r.AuthGate.CheckSize(r.Ctx, length); err != nil {
		return err
	}
	r.Waited = 0
	if cost > FreeBytes && r.Account != nil {
		r.claim = int64(cost)
	}
	return nil
}

// ReadWhole reads all n bytes of the message announced to Expect, and takes the rest of its cost from the budget.
func (r *Inbound) ReadWhole(n int) error {
	if err := r.Fill(n); err != nil {
		return err
	}
	return r.acquire(r.claim)
}

// acquire raises the bytes of the budget that the current message holds to n, and waits for them if it must.
func (r *Inbound) acquire(n int64) error {
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

// Release drops the current message and gives back its memory.
func (r *Inbound) Release() {
	r.at, r.size = r.at+r.size, 0
	if r.claim > 0 {
		r.Account.Release(r.held)
		r.held, r.claim = 0, 0
	}
	if r.buf != nil && r.at == r.end {
		memory.PutBuffer(r.buf)
		r.buf, r.at, r.end = nil, 0, 0
	}
}

// Free gives back all memory.
func (r *Inbound) Free() {
	r.Release()
	memory.PutBuffer(r.buf)
	r.buf, r.at, r.end = nil, 0, 0
}

// Fill reads until at least n bytes are unread.
func (r *Inbound) Fill(n int) error {
	if r.end-r.at >= n {
		return nil
	}
	if err := r.goIdle(); err != nil {
		return err
	}
	for r.end-r.at < n {
		k, err := r.read(n)
		if err != nil && !r.clearDeadline(err) {
			return r.unexpectedEOF(err)
		}
		r.end += k
	}
	return nil
}

// read reads once. It is called when fewer than n bytes, the number wanted, are there.
func (r *Inbound) read(n int) (int, error) {
	if r.buf == nil {
		buf, k, err := ReadNext(r.Conn, nil, inboundBytes)
		r.buf = buf
		return k, err
	}
	room := r.nextRoom(n)
	if err := r.makeRoom(room); err != nil {
		return 0, err
	}
	limit := len(r.buf)
	if n > inboundBytes {
		limit = r.at + room // a large buffer gets no bytes of the next message
	}
	if r.held > 0 {
		r.Account.Await(r.Peer)
		defer r.Account.Awaited(r.Peer)
	}
	k, err := r.Conn.Read(r.buf[r.end:limit])
	if k > 0 {
		return k, nil // the next read returns the error again
	}
	return 0, err
}

// nextRoom returns the number of bytes, up to n, for which the buffer should have room now.
func (r *Inbound) nextRoom(n int) int {
	have, room := r.end-r.at, len(r.buf)-r.at
	switch {
	case n <= initialRoom:
		return n
	case have < room:
		return min(n, room)
	}
	return min(n, max(initialRoom, growthFactor*have))
}

// makeRoom makes the buffer large enough for n unread bytes.
func (r *Inbound) makeRoom(n int) error {
	switch {
	case r.at+n <= len(r.buf):
		return nil
	case n <= len(r.buf):
		copy(r.buf, r.buf[r.at:r.end])
	default:
		if err := r.acquire(min(int64(n), r.claim)); err != nil { // acquires nothing if claim is 0
			return err
		}
		grown := memory.GetBuffer(n)
		grown = grown[:cap(grown)]
		copy(grown, r.buf[r.at:r.end])
		memory.PutBuffer(r.buf)
		r.buf = grown
	}
	r.at, r.end = 0, r.end-r.at
	return nil
}

// clearDeadline removes the read deadline if a drain has interrupted a read within a message: a drain waits until the
// message is complete. It reports whether to continue reading.
func (r *Inbound) clearDeadline(err error) bool {
	if r.end == r.at || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	return r.Conn.SetReadDeadline(time.Time{}) == nil
}

// unexpectedEOF turns an EOF within a message into io.ErrUnexpectedEOF.
func (r *Inbound) unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) && r.end > r.at {
		return io.ErrUnexpectedEOF
	}
	return err
}
