package gateway

import (
	"net"

	"golang.org/x/sys/unix"
)

// movedByKernel is what the kernel knows of a TCP connection: what came, read by us or not, and what
// the other end has acknowledged. Its send buffer, of some megabytes, lets us write only when a
// third of it is empty again, so a count of writes would take a slow reader for one that has stopped.
func movedByKernel(c net.Conn) (received, taken int64, ok bool) {
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
