package http2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"
)

// StreamConn is the stream of a CONNECT request (RFC 9113, section 8.5) as a connection.
type StreamConn struct {
	s      *stream
	call   *clientStream // nil at the server's end
	remote net.Addr

	// Guarded by the connection's mu.
	closed      bool
	read, wrote streamDeadline // for Read and for Write
}

// streamDeadline is a deadline of a StreamConn. The connection's mu guards it.
type streamDeadline struct {
	passed bool
	timer  *time.Timer // nil: there is none, or it has passed
}

func (d *streamDeadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

// Connect sends a CONNECT request, and returns its stream as a connection at once: data written before the server has
// answered is sent without waiting for the answer. If the server refuses the request, reads fail. Connect waits for
// nothing but a free stream, as long as ctx lasts. The caller must close the connection. For widen see Sending.
// Connect returns ErrUnusable if the caller may try another ClientConn.
func (c *ClientConn) Connect(ctx context.Context, authority string, widen func(n int64) bool) (*StreamConn, error) {
	r := (&http.Request{Method: http.MethodConnect, URL: &url.URL{Host: authority}}).WithContext(ctx)
	out, err := NewSending(r, nil)
	if err != nil {
		return nil, err
	}
	out.Widen, out.tunnel, out.length, out.whole = widen, true, -1, false
	a := &clientStream{client: c, out: out}
	if err := a.begin(); err != nil {
		return nil, err
	}
	return &StreamConn{s: &a.stream, call: a, remote: c.net.RemoteAddr()}, nil
}

// Conn accepts a CONNECT request, and returns its stream as a connection, which ends when the handler returns.
func (w *response) Conn() (*StreamConn, error) {
	s := w.call
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if err := w.sendHeaders(false); err != nil {
		return nil, err
	}
	s.c.flush()
	return &StreamConn{s: &s.stream, remote: s.c.net.RemoteAddr()}, nil
}

var (
	errRefused = errors.New("http2: the server refuses the connection")
	errLost    = errors.New("http2: the connection of the stream was lost")
)

// Read reads what has arrived, also after the deadline has passed or the server has reset the stream.
func (c *StreamConn) Read(p []byte) (int, error) {
	s := c.s
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	for s.in.len() == 0 && s.inErr == nil && !s.remoteEnd && !c.read.passed {
		s.wake.Wait()
	}
	switch {
	case c.call != nil && c.call.resp != nil && c.call.resp.StatusCode != http.StatusOK:
		return 0, fmt.Errorf("%w: %s", errRefused, c.call.resp.Status)
	case s.in.len() > 0:
		n := s.in.read(p)
		if s.widen != nil && s.in.len() == 0 {
			s.growWindow(int64(n))
		}
		s.c.restoreWindow(s, int64(n))
		s.c.flush()
		return n, nil
	case s.inErr == io.ErrUnexpectedEOF: // the connection broke; readers would take this for an end within a message
		return 0, errLost
	case s.inErr != nil:
		return 0, s.inErr
	case s.remoteEnd:
		return 0, io.EOF
	}
	return 0, os.ErrDeadlineExceeded
}

// KeepOut sets whether data written from now on is kept out of the history of a link. Data may be kept out only on
// connections of KeepSecrets.
func (c *StreamConn) KeepOut(secret bool) {
	c.s.c.mu.Lock()
	defer c.s.c.mu.Unlock()
	c.s.marked = secret
}

// Write queues p, and waits while the peer's window or the queue is full.
func (c *StreamConn) Write(p []byte) (n int, err error) {
	s := c.s
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	for n < len(p) {
		switch fits := s.fits(len(p) - n); {
		case s.outErr != nil:
			return n, s.outErr
		case c.wrote.passed:
			return n, os.ErrDeadlineExceeded
		case fits > 0:
			s.queueData(p[n:n+fits], false)
			n += fits
		default:
			s.waitForRoom(func() bool { return s.fits(1) > 0 || c.wrote.passed })
		}
	}
	s.c.flush()
	return n, nil
}

// CloseWrite ends the writing side: the peer reads an EOF after what was written.
func (c *StreamConn) CloseWrite() error {
	s := c.s
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	c.closeWrite()
	s.c.flush()
	return nil
}

func (c *StreamConn) closeWrite() {
	if s := c.s; s.outErr == nil {
		s.queueData(nil, true)
		s.endLocal()
		s.wake.Broadcast() // a Write that waits
	}
}

// Close ends both sides. The peer still gets what was written, if it has room for it.
func (c *StreamConn) Close() error {
	s := c.s
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	c.read.stop()
	c.wrote.stop()
	c.closeWrite()
	s.outErr = net.ErrClosed
	s.drop(net.ErrClosed)
	s.wake.Broadcast()
	if c.call != nil && !s.gone {
		c.call.client.abandon(c.call, net.ErrClosed)
	} // at the server's end the handler resets the stream when it returns
	s.c.flush()
	return nil
}

// NetConn returns the connection that the HTTP/2 connection uses.
func (c *StreamConn) NetConn() net.Conn { return c.s.c.net }

// LocalAddr returns the address of the HTTP/2 connection.
func (c *StreamConn) LocalAddr() net.Addr { return c.s.c.net.LocalAddr() }

// RemoteAddr returns the address of the HTTP/2 connection.
func (c *StreamConn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *StreamConn) SetDeadline(at time.Time) error {
	return errors.Join(c.SetReadDeadline(at), c.SetWriteDeadline(at))
}

// SetReadDeadline implements net.Conn.
func (c *StreamConn) SetReadDeadline(at time.Time) error { return c.setDeadline(&c.read, at) }

// SetWriteDeadline implements net.Conn.
func (c *StreamConn) SetWriteDeadline(at time.Time) error { return c.setDeadline(&c.wrote, at) }

func (c *StreamConn) setDeadline(d *streamDeadline, at time.Time) error {
	s := c.s
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	d.stop()
	wait := time.Until(at)
	if d.passed = !at.IsZero() && wait <= 0; d.passed {
		s.wake.Broadcast()
	}
	if at.IsZero() || d.passed {
		return nil
	}
	var t *time.Timer
	t = s.c.after(wait, func() {
		if d.timer == t { // it was not replaced meanwhile
			d.passed, d.timer = true, nil
			s.wake.Broadcast()
		}
	})
	d.timer = t
	return nil
}

var _ net.Conn = (*StreamConn)(nil)
