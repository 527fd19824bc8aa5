package testenv

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipeBytes is the size of the buffer of each direction of a Pipe; a write blocks while it is full.
const pipeBytes = 64 << 10

// Pipe returns the two ends of a connection in memory. Unlike net.Pipe, and like a socket, it buffers
// writes until the peer reads, and an end can be closed for writing alone. In a synctest bubble, goroutines
// that wait for it are durably blocked.
func Pipe() (a, b net.Conn) {
	there, back := newPipeWay(), newPipeWay()
	return &pipeConn{in: back, out: there}, &pipeConn{in: there, out: back}
}

type pipeConn struct{ in, out *pipeWay }

func (c *pipeConn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *pipeConn) Write(p []byte) (int, error) { return c.out.write(p) }

// CloseWrite ends the data that this end sends.
func (c *pipeConn) CloseWrite() error {
	c.out.set(func() { c.out.ended = true })
	return nil
}

func (c *pipeConn) Close() error {
	c.in.set(func() { c.in.readerGone = true })
	c.out.set(func() { c.out.ended, c.out.writerGone = true, true })
	return nil
}

func (c *pipeConn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *pipeConn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.readBy, t)
	return nil
}

func (c *pipeConn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.out.writeBy, t)
	return nil
}

func (c *pipeConn) LocalAddr() net.Addr  { return pipeAddr{} }
func (c *pipeConn) RemoteAddr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// pipeWay is one direction of a Pipe.
type pipeWay struct {
	mu      sync.Mutex
	changed sync.Cond
	buf     []byte

	ended, readerGone, writerGone bool
	readBy, writeBy               pipeDeadline
}

type pipeDeadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *pipeDeadline) over() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func newPipeWay() *pipeWay {
	w := &pipeWay{}
	w.changed.L = &w.mu
	return w
}

func (w *pipeWay) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	w.changed.Broadcast()
}

func (w *pipeWay) setDeadline(d *pipeDeadline, t time.Time) {
	w.set(func() {
		if d.timer != nil {
			d.timer.Stop()
			d.timer = nil
		}
		if d.at = t; !t.IsZero() {
			d.timer = time.AfterFunc(time.Until(t), func() { w.set(func() {}) })
		}
	})
}

func (w *pipeWay) read(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		switch {
		case w.readerGone:
			return 0, net.ErrClosed
		case w.readBy.over():
			return 0, os.ErrDeadlineExceeded
		case len(w.buf) > 0 || len(p) == 0:
			n := copy(p, w.buf)
			w.buf = append(w.buf[:0], w.buf[n:]...)
			w.changed.Broadcast()
			return n, nil
		case w.ended:
			return 0, io.EOF
		}
		w.changed.Wait()
	}
}

func (w *pipeWay) write(p []byte) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		switch {
		case w.writerGone:
			return n, net.ErrClosed
		case w.ended || w.readerGone:
			return n, io.ErrClosedPipe
		case w.writeBy.over():
			return n, os.ErrDeadlineExceeded
		case len(p) == 0:
			return n, nil
		}
		if room := min(pipeBytes-len(w.buf), len(p)); room > 0 {
			w.buf = append(w.buf, p[:room]...)
			n, p = n+room, p[room:]
			w.changed.Broadcast()
			continue
		}
		w.changed.Wait()
	}
}

// PipeListener accepts in-memory connections that Dial makes.
type PipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewPipeListener returns a listener for in-memory connections.
func NewPipeListener() *PipeListener {
	return &PipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial makes a connection. It blocks until Accept or Close is called.
func (l *PipeListener) Dial() (net.Conn, error) {
	near, far := Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *PipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *PipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *PipeListener) Addr() net.Addr { return pipeAddr{} }
