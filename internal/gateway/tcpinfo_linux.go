package gateway

import (
	"encoding/binary"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// transferredByKernel returns the kernel's counts for a TCP connection: the bytes received, read or not, and the
// bytes that the other end has acknowledged. Written bytes would be the wrong measure: a send buffer of some
// megabytes becomes writable only when a third of it is empty again, so a slow reader would seem to have stopped.
func transferredByKernel(c net.Conn) (received, taken int64, ok bool) {
	t, isTCP := c.(*net.TCPConn)
	if !isTCP {
		return 0, 0, false
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return 0, 0, false
	}
	var info *unix.TCPInfo
	controlErr := raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	if controlErr != nil || err != nil {
		return 0, 0, false
	}
	return int64(info.Bytes_received), int64(info.Bytes_acked), true
}

// tcpClose is the state of a TCP connection that was reset, in Linux's tcp_states.h.
const tcpClose = 7

// WasReset reports whether c was reset, after a read from c returned EOF. The kernel reports a reset as an error only
// once: if a writer got it, a reader gets EOF. WasReset must not be called for a connection that was closed for
// writing, since that has the same state after an ordinary end.
func WasReset(c net.Conn) bool {
	c = belowTLS(c)
	if wrapped, ok := c.(*Conn); ok {
		c = wrapped.Conn
	}
	t, ok := c.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return true // it has been closed
	}
	reset := false
	err = raw.Control(func(fd uintptr) {
		// The state is the first byte of struct tcp_info.
		info, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_INFO)
		var b [4]byte
		binary.NativeEndian.PutUint32(b[:], uint32(info))
		reset = err == nil && b[0] == tcpClose
	})
	return reset || err != nil
}
