package gateway

import (
	"crypto/tls"
	"encoding/binary"
	"net"
	"syscall"
)

// tcpClose is the state of a TCP connection that was reset, in Linux's tcp_states.h.
const tcpClose = 7

// WasReset reports whether an end that was read from c is none: a reset is an error once
// only, so that after a writer has got it a reader sees an end. It is for connections that
// were not closed for writing, whose state is the same after an ordinary end.
func WasReset(c net.Conn) bool {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
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
