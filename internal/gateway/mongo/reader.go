package mongo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

const (
	// bufferBytes is what a busy connection holds in each direction; an idle one holds none.
	bufferBytes = 16 << 10
	// freeBytes of a message, in all its forms, are not taken from the budget.
	freeBytes = 48 << 10
)

// message is one message as it came. Its bytes live until the next one is read.
type message struct {
	bytes  []byte
	header wire.Header       // of the message without compression
	came   wire.CompressorID // plain, or how it is compressed
	held   bool              // its bytes are taken from the budget
	paired wire.Paired       // of a frame between gateways
}

// reader cuts one connection into messages. It belongs to one pump.
type reader struct {
	conn     net.Conn
	ctx      context.Context
	patience gateway.Patience
	pair     *hearer // nil, or not on: no frames between gateways come

	buf     []byte // nil while nothing is there
	at, end int    // what has been read and not handed out
	size    int    // of the message that was handed out last, at the front
	held    int64  // of the budget, for that message

	// How the last message came in: so many bytes in so much time after its header was seen.
	rest int
	took time.Duration
}

// next reads one message. The one before must not be used any more. An error at the end of
// a message is io.EOF or os.ErrDeadlineExceeded; both leave the reader as it was.
func (r *reader) next() (m message, err error) {
	r.release()
	if err = r.fill(wire.PairedLengthLen); err != nil {
		return m, err
	}
	if r.pair != nil && r.pair.on.Load() && wire.IsPaired(r.buf[r.at:]) {
		return r.nextPaired()
	}
	if err = r.fill(wire.HeaderLen); err != nil {
		return m, err
	}
	m.came = plain
	if m.header, err = wire.ParseHeader(r.buf[r.at:]); err != nil {
		return m, err
	}
	length, cost := m.header.Length, 2*m.header.Length
	if m.header.OpCode == wire.OpCompressed {
		if err = r.fill(wire.CompressedHeaderLen); err != nil {
			return m, err
		}
		c, err := wire.ParseCompressed(m.header, r.buf[r.at:])
		if err != nil {
			return m, err
		}
		if _, ok := algorithmOf(c.Compressor); !ok {
			return m, fmt.Errorf("%w %d", errCompressor, c.Compressor)
		}
		m.header, m.came, cost = c.Header, c.Compressor, length+2*c.Length
	}
	return m, r.whole(&m, length, cost)
}

// nextPaired reads a frame between gateways, whose length is there.
func (r *reader) nextPaired() (m message, err error) {
	length, err := wire.PairedLength(r.buf[r.at:])
	if err != nil {
		return m, err
	}
	if err = r.fill(min(length, wire.MaxPairedHead)); err != nil {
		return m, err
	}
	if m.paired, err = wire.ParsePaired(r.buf[r.at:r.end], r.pair.numbers); err != nil {
		return m, err
	}
	m.header, m.came = m.paired.Header, wire.BetweenGateways
	return m, r.whole(&m, length, length+2*m.header.Length)
}

// whole reads the rest of a message, when what it costs is to be had.
func (r *reader) whole(m *message, length, cost int) error {
	if err := r.hold(cost); err != nil {
		return err
	}
	began := time.Now()
	r.rest = length - (r.end - r.at)
	if err := r.fill(length); err != nil {
		return err
	}
	r.took = time.Since(began)
	r.size = length
	m.bytes, m.held = r.buf[r.at:r.at+length:r.at+length], r.held > 0
	return nil
}

// hold takes what a message will need from the budget, all of it at once and before any of
// it is allocated.
func (r *reader) hold(cost int) error {
	if cost <= freeBytes || r.patience.Budget == nil {
		return nil
	}
	if err := r.patience.Budget.Acquire(r.ctx, int64(cost)); err != nil {
		return err
	}
	r.held = int64(cost)
	return nil
}

// release forgets the last message.
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
		limit = r.at + n // nothing of the next message in a large buffer
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

// goOn decides about a read that was interrupted. Within a message a drain waits.
func (r *reader) goOn(err error) bool {
	if r.end == r.at || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	if r.held > 0 {
		return r.patience.Tolerates()
	}
	return r.conn.SetReadDeadline(time.Time{}) == nil
}

// cut tells an end within a message from one between two.
func (r *reader) cut(err error) error {
	if errors.Is(err, io.EOF) && r.end > r.at {
		return io.ErrUnexpectedEOF
	}
	return err
}
