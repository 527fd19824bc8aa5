package endpoint

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// ErrDescriptors is wrapped by the errors of connections that could not be made, or were not kept, because
// the process has hardly any file descriptors left.
var ErrDescriptors = errors.New("out of file descriptors")

// ReservedDescriptors are kept from clients and upstreams, so that the admin page, readiness, dictionaries
// and reloads work when connections have used up the others.
const ReservedDescriptors = 24

// DescriptorShortage returns an error if the process is short of file descriptors, otherwise nil. It is short
// if err, of a dial or an accept, says so, or if c has got one of the last descriptors, which are reserved:
// systems assign the lowest free number.
func DescriptorShortage(c net.Conn, reserved uint64, err error) error {
	limit := DescriptorLimit()
	if err == nil {
		fd, ok := descriptorOf(c)
		reserve := min(reserved, limit/4)
		if !ok || limit == 0 || fd < limit-reserve {
			return nil
		}
	} else if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
		return nil
	}
	return fmt.Errorf("%w: the limit is %d and each client needs two: raise LimitNOFILE= of the systemd unit, or ulimit -n", ErrDescriptors, limit)
}

// descriptorOf returns the number of c's file descriptor.
func descriptorOf(c net.Conn) (number uint64, ok bool) {
	conn, ok := c.(syscall.Conn)
	if !ok {
		return 0, false
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = raw.Control(func(fd uintptr) { number = uint64(fd) })
	return number, err == nil
}

// DescriptorLimit returns how many file descriptors the process may have; 0: unknown.
func DescriptorLimit() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Cur)
}
