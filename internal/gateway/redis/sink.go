package redis

import (
	"net"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// source reads one connection for a resp.Reader.
type source struct {
	conn net.Conn
	// reader, on the client's side, is told when a read waits for bytes, and decides whether a read that
	// failed is repeated. It is nil upstream.
	reader *requestReader
}

func (s *source) Read(p []byte) (int, error) {
	for {
		watched := s.reader.beginStallWatch()
		n, err := s.conn.Read(p)
		if watched {
			s.reader.endStallWatch()
		}
		if n > 0 || err == nil || !s.reader.shouldFinish(err) {
			return n, err
		}
	}
}

func (s *source) ReadNext(spare []byte, size int) ([]byte, int, error) {
	for {
		watched := s.reader.beginStallWatch()
		buf, n, err := gateway.ReadNext(s.conn, spare, size)
		if watched {
			s.reader.endStallWatch()
		}
		if n > 0 || err == nil || !s.reader.shouldFinish(err) {
			return buf, n, err
		}
		spare = nil
	}
}

func (s *source) Release(buf []byte) { memory.PutBuffer(buf) }

// sink gathers writes to one connection. It holds copies in a buffer, which it takes from the pool with the
// first byte and returns with every flush. Behind these it may hold a lent piece of the pump's read buffer,
// which it sends without copying. So bytes that arrived in one read leave in one write, and only changed bytes
// are copied. A sink belongs to one goroutine.
type sink struct {
	conn    net.Conn
	buf     []byte
	lent    []byte          // sent after buf; a part of the reader's buffer, so flushed before the reader's next read
	err     error           // the first error; later writes are dropped
	spill   *spill          // on the client's side; nil upstream
	account *memory.Account // marked as waiting for the client during writes; nil upstream

	beforeSend func() error // called before bytes leave; nil: nothing

	gather *gathered // for flushes that send buf and lent; nil until first used
}

// gathered holds the pieces of one write.
type gathered struct {
	both [2][]byte
	left net.Buffers // of both
}

// copyBytes limits the length of a piece that is copied behind earlier ones, so that all leave in one write. Longer
// pieces are sent from where they are.
const copyBytes = bufferBytes / 2

// write sends p, or keeps a copy of it until the next flush.
func (w *sink) write(p []byte) error {
	if len(w.lent) > 0 {
		w.copyLent()
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

// spare returns the gathered bytes with capacity for size more, at most bufferBytes in all. To write, append
// to the slice and assign it to w.buf. It is nil after an error.
func (w *sink) spare(size int) []byte {
	if len(w.lent) > 0 {
		w.copyLent()
	}
	if len(w.buf)+size > bufferBytes {
		_ = w.Flush()
	}
	if w.buf == nil {
		w.buf = memory.GetBuffer(bufferBytes)
	}
	if w.err != nil {
		return nil
	}
	return w.buf
}

// keep adds a copy of p; len(p) <= bufferBytes. Nothing may be lent.
func (w *sink) keep(p []byte) {
	if dst := w.spare(len(p)); dst != nil {
		w.buf = append(dst, p...)
	}
}

// copyLent copies the lent bytes, so that other bytes may follow them, or sends them.
func (w *sink) copyLent() {
	if len(w.buf)+len(w.lent) > copyBytes {
		_ = w.Flush()
		return
	}
	p := w.lent
	w.lent = nil
	w.keep(p)
}

// lend sends p without copying, if possible, with the next flush. p must stay unchanged until then.
func (w *sink) lend(p []byte) error {
	n := len(w.lent)
	switch {
	case n == 0 && (len(w.buf) == 0 || len(p) >= copyBytes):
		w.lent = p
	case n > 0 && n < cap(w.lent) && len(p) > 0 && &w.lent[:n+1][n] == &p[0]: // p follows the lent bytes in the buffer
		w.lent = w.lent[:n+len(p)]
	case n > 0:
		w.copyLent()
		return w.lend(p)
	default:
		w.keep(p)
	}
	return w.err
}

func (w *sink) Flush() error {
	if w.beforeSend != nil && w.err == nil {
		w.err = w.beforeSend()
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
		memory.PutBuffer(w.buf)
		w.buf = nil
	}
	return w.err
}

// sendBoth sends buf and lent in one write.
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

// send writes p, or passes it to the spill.
func (w *sink) send(p []byte) {
	if w.spill != nil && w.spill.used {
		taken, err := w.spill.add(p)
		if taken || err != nil {
			w.err = err
			return
		}
	}
	w.account.Await(memory.FromClient)
	n, err := w.conn.Write(p)
	w.account.Awaited(memory.FromClient)
	switch {
	case err == nil:
	case w.spill != nil && w.spill.shouldStart(err):
		w.spill.start(p[n:])
	default:
		w.err = err
	}
}

// writeHeld sends what was gathered and then p, whose bytes are held from a budget.
func (w *sink) writeHeld(p []byte) error {
	_ = w.Flush()
	for len(p) > 0 && w.err == nil {
		n := min(len(p), memory.PieceBytes)
		w.send(p[:n])
		p = p[n:]
	}
	return w.err
}
