package gateway

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// ReadReady reads what is there already, until p is full, and does not wait. Like any read it belongs to one goroutine at
// a time; deadlines stay as they are. What it returns an error with need not come again.
func ReadReady(c net.Conn, p []byte) (n int, err error) {
	below, records := c, false
	if t, ok := c.(*tls.Conn); ok { // which gives a record at a time, and small ones at first
		below, records = t.NetConn(), true
	}
	wrapped, ok := below.(*Conn)
	if !ok || wrapped.first == nil && !wrapped.canWait() {
		return 0, nil
	}
	wrapped.noWait = true
	defer func() { wrapped.noWait = false }()
	for n < len(p) && err == nil {
		var k int
		k, err = c.Read(p[n:])
		if n += k; !records {
			break
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) { // nothing is there
		err = nil
	}
	return n, err
}

// readNow reads once. Where there is nothing it says what TLS takes for no end of the connection.
func (c *Conn) readNow(p []byte) (n int, err error) {
	waitErr := c.first.raw.Read(func(fd uintptr) bool {
		n, err = readOnce(int(fd), p)
		return true
	})
	switch {
	case waitErr != nil:
		return 0, waitErr
	case err == syscall.EAGAIN:
		return 0, os.ErrDeadlineExceeded
	case err != nil:
		return 0, &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", err)}
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, nil
}

// socketOf returns c with its socket, nil above TLS or where there is none.
func socketOf(c net.Conn) (*Conn, syscall.RawConn) {
	wrapped, ok := c.(*Conn)
	if !ok {
		return nil, nil
	}
	below, ok := wrapped.Conn.(syscall.Conn)
	if !ok {
		return nil, nil
	}
	raw, err := below.SyscallConn()
	if err != nil {
		return nil, nil
	}
	return wrapped, raw
}

// NowWriter writes without waiting. It belongs to one goroutine at a time, which is the only one that writes then.
type NowWriter struct {
	conn    *Conn
	raw     syscall.RawConn
	attempt func(fd uintptr) bool
	p       []byte
	n       int
	err     error
}

// NewNowWriter returns nil where c can't write without waiting: above TLS, or where there is no socket.
func NewNowWriter(c net.Conn) *NowWriter {
	wrapped, raw := socketOf(c)
	if raw == nil {
		return nil
	}
	w := &NowWriter{conn: wrapped, raw: raw}
	w.attempt = w.write
	return w
}

// Write writes as much of p as the system takes at once, which is not always all of it. Deadlines of writes stay as they are.
func (w *NowWriter) Write(p []byte) (n int, err error) {
	w.p, w.n, w.err = p, 0, nil
	err = w.raw.Write(w.attempt)
	w.p = nil
	if err == nil && w.err != nil {
		err = &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", w.err)}
	}
	w.conn.countSent(int64(w.n))
	return w.n, err
}

// write is done after one attempt, whatever comes of it.
func (w *NowWriter) write(fd uintptr) bool {
	n, err := briefWrite(int(fd), w.p)
	for err == syscall.EINTR {
		n, err = briefWrite(int(fd), w.p)
	}
	w.n = max(n, 0)
	if err != syscall.EAGAIN {
		w.err = err
	}
	return true
}

// BriefReader reads as the connection itself does, but spares small reads what they cost beside the system call. It belongs to
// one goroutine at a time.
type BriefReader struct {
	conn    *Conn
	raw     syscall.RawConn
	attempt func(fd uintptr) bool
	p       []byte
	n       int
	err     error
}

// NewBriefReader returns c where there is nothing to spare: above TLS, or where there is no socket.
func NewBriefReader(c net.Conn) io.Reader {
	wrapped, raw := socketOf(c)
	if raw == nil {
		return c
	}
	r := &BriefReader{conn: wrapped, raw: raw}
	r.attempt = r.read
	return r
}

func (r *BriefReader) Read(p []byte) (int, error) {
	r.p, r.n, r.err = p, 0, nil
	err := r.raw.Read(r.attempt)
	r.p = nil
	switch {
	case err != nil:
	case r.err != nil:
		err = &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", r.err)}
	case r.n == 0 && len(p) > 0:
		err = io.EOF
	}
	r.conn.countReceived(r.n)
	return r.n, err
}

// read is called by the runtime's poller when a read may succeed.
func (r *BriefReader) read(fd uintptr) bool {
	n, err := briefRead(int(fd), r.p)
	for err == syscall.EINTR {
		n, err = briefRead(int(fd), r.p)
	}
	r.n = max(n, 0)
	if err == syscall.EAGAIN {
		return false
	}
	r.err = err
	return true
}
