package gateway

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"syscall"
)

// ReadReady reads what is there already, until p is full, and does not wait. It is for TLS, which gives a record
// at a time, and small ones at first. Like any read it belongs to one goroutine at a time; deadlines stay as they
// are. An end or an error comes again, with the next read.
func ReadReady(c *tls.Conn, p []byte) (n int) {
	below, ok := c.NetConn().(*Conn)
	if !ok || below.first == nil && !below.canWait() {
		return 0
	}
	below.noWait = true
	defer func() { below.noWait = false }()
	for n < len(p) {
		k, err := c.Read(p[n:])
		n += k
		if err != nil {
			break
		}
	}
	return n
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
