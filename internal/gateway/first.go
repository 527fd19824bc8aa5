package gateway

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// firstPeekBytes is what a connection holds while it waits where a buffer can't be
// taken late (TLS, which holds more than that itself).
const firstPeekBytes = 512

// ReadFirst waits until c has bytes, and only then takes a buffer with room for size
// bytes from the pool and reads into it. So a connection that waits holds no buffer. It
// returns the buffer at its full length and the number of bytes read. The caller owns
// the buffer and gives it back with PutBuffer; on an error there is none.
func ReadFirst(c net.Conn, size int) (buf []byte, n int, err error) {
	return ReadNext(c, nil, size)
}

// ReadNext is ReadFirst for who still has a buffer: bytes that are there already are read into
// that one, and only when there are none it goes back to the pool. spare belongs to ReadNext from
// then on; it is nil or has room for size bytes.
func ReadNext(c net.Conn, spare []byte, size int) (buf []byte, n int, err error) {
	if wrapped, ok := c.(*Conn); ok && (wrapped.first != nil || wrapped.canWait()) {
		wrapped.first.size, wrapped.first.buf = size, spare
		return wrapped.taken(wrapped.first.raw.Read(wrapped.first.attempt)) // the runtime's poller does the waiting
	}
	PutBuffer(spare)
	return readThenGrow(c, size)
}

// firstRead is the state of a connection's ReadFirst. It is made once, since a closure and
// its captures would be three allocations for every read.
type firstRead struct {
	raw     syscall.RawConn
	attempt func(fd uintptr) bool
	size    int
	buf     []byte // nil but for what ReadNext was given, or returns
	n       int
	err     error
}

// read is called by the runtime's poller when a read may succeed. The buffer is taken
// here and goes back when it does not.
func (f *firstRead) read(fd uintptr) bool {
	if f.buf == nil {
		f.buf = GetBuffer(f.size)
		f.buf = f.buf[:cap(f.buf)]
	}
	for {
		f.n, f.err = syscall.Read(int(fd), f.buf)
		if f.err == nil {
			return true
		}
		f.n = 0
		if f.err != syscall.EINTR { // errors.Is would be felt
			break
		}
	}
	if f.err != syscall.EAGAIN {
		return true
	}
	PutBuffer(f.buf)
	f.buf = nil
	return false
}

// canWait makes c.first, if the runtime's poller can wait for c.
func (c *Conn) canWait() bool {
	sc, ok := c.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	f := &firstRead{}
	var err error
	if f.raw, err = sc.SyscallConn(); err != nil {
		return false
	}
	f.attempt = f.read
	c.first = f
	return true
}

// taken returns what first.attempt has read. Like any read it belongs to one goroutine at a time. It is no part of ReadNext, whose stack
// lasts while a connection waits: a few bytes more would keep the runtime from shrinking it (TestMemoryOfManyConnections).
func (c *Conn) taken(err error) (buf []byte, n int, _ error) {
	f := c.first
	buf, n = f.buf, f.n
	f.buf = nil
	if err == nil && f.err != nil {
		err = &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", f.err)}
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		PutBuffer(buf)
		return nil, 0, err
	}
	c.countReceived(n)
	if c.pace != nil {
		c.pace.note(n)
	}
	return buf, n, nil
}

func readOnce(fd int, p []byte) (int, error) {
	for {
		n, err := syscall.Read(fd, p)
		if err != syscall.EINTR { // errors.Is would be felt
			return max(n, 0), err
		}
	}
}

// readThenGrow waits with a small buffer and moves to a large one when bytes have come.
func readThenGrow(c net.Conn, size int) (buf []byte, n int, err error) {
	small := GetBuffer(firstPeekBytes)[:firstPeekBytes]
	defer PutBuffer(small)
	n, err = c.Read(small)
	if n == 0 {
		if err == nil {
			err = io.ErrNoProgress
		}
		return nil, 0, err
	}
	buf = GetBuffer(size)
	buf = buf[:cap(buf)]
	copy(buf, small[:n])
	return buf, n, nil // an error that came with the bytes comes again
}

// PeerClosed reports whether c's peer has ended its side and all it sent has been read. It
// does not wait and consumes nothing.
func PeerClosed(c net.Conn) bool {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	wrapped, ok := c.(*Conn)
	if !ok {
		return false
	}
	sc, ok := wrapped.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	closed := false
	_ = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		closed = err == nil && n == 0 || errors.Is(err, syscall.ECONNRESET)
	})
	return closed
}
