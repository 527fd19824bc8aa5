//go:build linux && !race

package gateway

import (
	"syscall"
	"unsafe"
)

// briefBytes is what a brief system call moves at most.
const briefBytes = 4 << 10

// briefRead and briefWrite are system calls on sockets that do not wait. Go's scheduler is not told of those that move little: each time
// that the process has been idle it would wake its monitor's thread for them, only to see that they have returned. The monitor
// interrupts goroutines that work for long. Who does that has read or writes much, and so it is awake then.
func briefRead(fd int, p []byte) (int, error) {
	if len(p) == 0 || len(p) > briefBytes {
		return syscall.Read(fd, p)
	}
	return untold(syscall.SYS_READ, fd, p)
}

func briefWrite(fd int, p []byte) (int, error) {
	if len(p) == 0 || len(p) > briefBytes {
		return syscall.Write(fd, p)
	}
	return untold(syscall.SYS_WRITE, fd, p)
}

func untold(call uintptr, fd int, p []byte) (int, error) {
	n, _, err := syscall.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	if err != 0 {
		return -1, err
	}
	return int(n), nil
}
