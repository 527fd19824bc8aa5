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
