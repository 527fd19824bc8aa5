package redis

import (
	"errors"
	"net"
	"os"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// bufferBytes is what a busy connection holds in each direction. Requests and replies
// that fit are handled in place; larger ones are streamed, or staged under the budget.
const bufferBytes = 32 << 10

// source reads one connection for a resp.Reader. Before it may block it calls idle,
// which flushes what the pump has written: nobody waits for bytes that lie in a buffer.
type source struct {
	conn net.Conn
	idle func() error
	// goOn, when set, is asked about a read that found nothing: true tries again.
	goOn func(error) bool
}

func (s *source) Read(p []byte) (int, error) {
	if err := s.idle(); err != nil {
		return 0, err
	}
	for {
		n, err := s.conn.Read(p)
		if n > 0 || err == nil || s.goOn == nil || !s.goOn(err) {
			return n, err
		}
	}
}

func (s *source) ReadFirst(size int) ([]byte, int, error) {
	if err := s.idle(); err != nil {
		return nil, 0, err
	}
	for {
		buf, n, err := gateway.ReadFirst(s.conn, size)
		if n > 0 || err == nil || s.goOn == nil || !s.goOn(err) {
			return buf, n, err
		}
	}
}

func (s *source) Release(buf []byte) { gateway.PutBuffer(buf) }

// sink gathers writes to one connection. Its buffer is taken from the pool with the
// first byte and goes back with every flush. It belongs to one goroutine.
type sink struct {
	conn  net.Conn
	buf   []byte
	err   error  // the first failure; everything after it is dropped
	spill *spill // of the client's side; nil upstream
}

// room returns the buffer to append up to n bytes to, n <= bufferBytes; the caller
// stores the result back with set.
func (w *sink) room(n int) []byte {
	if len(w.buf)+n > bufferBytes {
		_ = w.flush()
	}
	if w.buf == nil {
		w.buf = gateway.GetBuffer(bufferBytes)
	}
	return w.buf
}

func (w *sink) set(buf []byte) { w.buf = buf }

// write sends p, or keeps a copy of it until the next flush.
func (w *sink) write(p []byte) error {
	if len(p) >= bufferBytes/2 {
		if err := w.flush(); err != nil {
			return err
		}
		w.send(p)
		return w.err
	}
	w.set(append(w.room(len(p)), p...))
	return w.err
}

func (w *sink) flush() error {
	if len(w.buf) > 0 && w.err == nil {
		w.send(w.buf)
	}
	if w.buf != nil {
		gateway.PutBuffer(w.buf)
		w.buf = nil
	}
	return w.err
}

// send writes p, or has it spilled.
func (w *sink) send(p []byte) {
	if w.spill != nil {
		taken, err := w.spill.add(p)
		if taken || err != nil {
			w.err = err
			return
		}
	}
	n, err := w.conn.Write(p)
	if w.spill.takesOver(err) {
		w.spill.start(p[n:])
		return
	}
	w.err = err
}

// writeHeld sends p, whose bytes are held from a budget, with t's patience.
func (w *sink) writeHeld(p []byte, t stall) error {
	if first := w.buf; first != nil { // what waits in front of it holds it up as well
		w.buf = nil
		err := w.sendPatiently(first, t)
		gateway.PutBuffer(first)
		if err != nil {
			return err
		}
	}
	return w.sendPatiently(p, t)
}

func (w *sink) sendPatiently(p []byte, t stall) error {
	defer func() { _ = w.conn.SetWriteDeadline(time.Time{}) }()
	for len(p) > 0 && w.err == nil {
		taken, err := w.spill.add(p)
		if taken || err != nil {
			w.err = err
			return err
		}
		_ = w.conn.SetWriteDeadline(t.deadline())
		n, err := w.conn.Write(p)
		p = p[n:]
		switch {
		case err == nil, n > 0 && errors.Is(err, os.ErrDeadlineExceeded):
		case w.spill.takesOver(err):
			w.spill.start(p)
			return nil
		case !t.tolerates(err):
			w.err = err
		}
	}
	return w.err
}
