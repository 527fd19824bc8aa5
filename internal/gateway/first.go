package gateway

import (
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
	if wrapped, ok := c.(*Conn); ok {
		if raw, ok := wrapped.Conn.(syscall.Conn); ok {
			return wrapped.readWhenReady(raw, size)
		}
	}
	return readThenGrow(c, size)
}

// readWhenReady lets the runtime's poller do the waiting: the buffer is taken inside
// the callback, which runs only when a read may succeed, and goes back when it does not.
func (c *Conn) readWhenReady(sc syscall.Conn, size int) (buf []byte, n int, err error) {
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, 0, err
	}
	var readErr error
	err = raw.Read(func(fd uintptr) bool {
		buf = fullBuffer(size)
		n, readErr = readOnce(int(fd), buf)
		if readErr == syscall.EAGAIN {
			PutBuffer(buf)
			buf = nil
			return false
		}
		return true
	})
	if err == nil && readErr != nil {
		err = &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", readErr)}
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		PutBuffer(buf)
		return nil, 0, err
	}
	if c.traffic != nil {
		c.traffic.received.Add(uint64(n))
	}
	return buf, n, nil
}

func readOnce(fd int, p []byte) (int, error) {
	for {
		n, err := syscall.Read(fd, p)
		if !errors.Is(err, syscall.EINTR) {
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
	buf = fullBuffer(size)
	copy(buf, small[:n])
	return buf, n, nil // an error that came with the bytes comes again
}

func fullBuffer(size int) []byte {
	buf := GetBuffer(size)
	return buf[:cap(buf)]
}
