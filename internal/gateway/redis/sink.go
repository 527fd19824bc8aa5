package redis

import (
	"net"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// source reads one connection for a resp.Reader.
type source struct {
	conn net.Conn
	// intake, on the client's side, is told that bytes are waited for, and asked about a read that found nothing: it may
	// be tried again. Upstream it is nil.
	intake *intake
}

func (s *source) Read(p []byte) (int, error) {
	for {
		watched := s.intake.await()
		n, err := s.conn.Read(p)
		if watched {
			s.intake.awaited()
		}
		if n > 0 || err == nil || !s.intake.finishes(err) {
			return n, err
		}
	}
}

func (s *source) ReadNext(spare []byte, size int) ([]byte, int, error) {
	for {
		watched := s.intake.await()
		buf, n, err := gateway.ReadNext(s.conn, spare, size)
		if watched {
			s.intake.awaited()
		}
		if n > 0 || err == nil || !s.intake.finishes(err) {
			return buf, n, err
		}
		spare = nil
	}
}

func (s *source) Release(buf []byte) { gateway.PutBuffer(buf) }

// sink gathers writes to one connection: copies in a buffer, which is taken from the pool
// with the first byte and goes back with every flush, or a piece of what its pump has read,
// which is sent from where it is. So what one read brought leaves with one write, and is
// copied only where something was changed. It belongs to one goroutine.
type sink struct {
	conn    net.Conn
	buf     []byte
	lent    []byte           // behind buf: of the reader's buffer, until the flush that comes before its next read
	err     error            // the first failure; everything after it is dropped
	spill   *spill           // of the client's side; nil upstream
	account *gateway.Account // that holds memory until the client has taken what is sent; nil upstream

	before func() error // called before bytes leave; nil: nothing

	gather *gathered // of the flushes that send buf and lent; nil until the first
}

// gathered is what one write sends.
type gathered struct {
	both [2][]byte
	left net.Buffers // of both
}

// copyBytes is up to what length a piece is copied behind others, to leave in one write.
const copyBytes = bufferBytes / 2

// write sends p, or keeps a copy of it until the next flush.
func (w *sink) write(p []byte) error {
	if len(w.lent) > 0 {
		w.takeIn()
	}
	if len(p) >= copyBytes {
		if w.Flush() == nil {
			w.send(p)
		}
		return w.err
	}
	w.keep(p)
	return w.err
}

// spare returns what is gathered, with a capacity for size bytes more, no more than bufferBytes: what is appended to it is written when
// it becomes w.buf. It is nil after a failure.
func (w *sink) spare(size int) []byte {
	if len(w.lent) > 0 {
		w.takeIn()
	}
	if len(w.buf)+size > bufferBytes {
		_ = w.Flush()
	}
	if w.buf == nil {
		w.buf = gateway.GetBuffer(bufferBytes)
	}
	if w.err != nil {
		return nil
	}
	return w.buf
}

// keep adds a copy of p, len(p) <= bufferBytes. Nothing is lent.
func (w *sink) keep(p []byte) {
	if dst := w.spare(len(p)); dst != nil {
		w.buf = append(dst, p...)
	}
}

// takeIn copies what is lent, so that something else may follow it, or sends it.
func (w *sink) takeIn() {
	if len(w.buf)+len(w.lent) > copyBytes {
		_ = w.Flush()
		return
	}
	p := w.lent
	w.lent = nil
	w.keep(p)
}

// lend sends p, which stays as it is until the next flush.
func (w *sink) lend(p []byte) error {
	n := len(w.lent)
	switch {
	case n == 0 && (len(w.buf) == 0 || len(p) >= copyBytes):
		w.lent = p
	case n > 0 && n < cap(w.lent) && len(p) > 0 && &w.lent[:n+1][n] == &p[0]: // right behind it
		w.lent = w.lent[:n+len(p)]
	case n > 0:
		w.takeIn()
		return w.lend(p)
	default:
		w.keep(p)
	}
	return w.err
}

func (w *sink) Flush() error {
	if w.before != nil && w.err == nil {
		w.err = w.before()
	}
	switch {
	case w.err != nil:
	case len(w.buf) > 0 && len(w.lent) > 0 && w.spill == nil:
		w.sendBoth()
	default:
		if len(w.buf) > 0 {
			w.send(w.buf)
		}
		if len(w.lent) > 0 && w.err == nil {
			w.send(w.lent)
		}
	}
	w.lent = nil
	if w.buf != nil {
		gateway.PutBuffer(w.buf)
		w.buf = nil
	}
	return w.err
}

// sendBoth sends a header and what it announces in one write.
func (w *sink) sendBoth() {
	if w.gather == nil {
		w.gather = new(gathered)
	}
	g := w.gather
	g.both = [2][]byte{w.buf, w.lent}
	g.left = g.both[:]
	_, w.err = gateway.WriteBuffers(w.conn, &g.left)
	*g = gathered{}
}

// send writes p, or has it spilled.
func (w *sink) send(p []byte) {
	if w.spill != nil && w.spill.used {
		taken, err := w.spill.add(p)
		if taken || err != nil {
			w.err = err
			return
		}
	}
	w.account.Await(gateway.FromClient)
	n, err := w.conn.Write(p)
	w.account.Awaited(gateway.FromClient)
	switch {
	case err == nil:
	case w.spill != nil && w.spill.takesOver(err):
		w.spill.start(p[n:])
	default:
		w.err = err
	}
}

// writeHeld sends p, whose bytes are held from a budget, and what waits in front of it.
func (w *sink) writeHeld(p []byte) error {
	_ = w.Flush()
	for len(p) > 0 && w.err == nil {
		n := min(len(p), gateway.HeldPieceBytes)
		w.send(p[:n])
		p = p[n:]
	}
	return w.err
}
