//go:build linux && !race

package gateway

import (
	"syscall"
	"unsafe"
)

// maxDirectBytes limits the bytes that a call moves without the scheduler's knowledge.
const maxDirectBytes = 4 << 10

// directCall reads from a socket, or writes to it, and does not wait. Calls that move few bytes
// bypass Go's scheduler: in a process that has been idle it would wake its monitor thread for each of them, and
// the call has returned by then. The monitor interrupts goroutines that run for long. Such a goroutine moves many
// bytes, so it makes ordinary calls, which wake the monitor.
func directCall(writes bool, fd int, p []byte) (int, error) {
	if len(p) == 0 || len(p) > maxDirectBytes {
		if writes {
			return syscall.Write(fd, p)
		}
		return syscall.Read(fd, p)
	}
	trap := uintptr(syscall.SYS_READ)
	if writes {
		trap = syscall.SYS_WRITE
	}
	n, _, err := syscall.RawSyscall(trap, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	if err != 0 {
		return -1, err
	}
	return int(n), nil
}
