package gateway

import (
	"net"

	"golang.org/x/sys/unix"
)

// transferredByKernel returns the kernel's counts for a TCP connection: the bytes received, read or not, and the
// bytes that the other end has acknowledged. Written bytes would be the wrong measure: the send buffer of
// some megabytes becomes writable only when a third of it is empty again, so a slow reader would look stopped.
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
