//go:build linux && !race

package gateway

import (
	"syscall"
	"unsafe"
)

// maxDirectBytes limits the bytes that a call moves without the scheduler's knowledge. Moving them takes less time than
// the scheduler's monitor waits before it looks at a system call.
const maxDirectBytes = inboundBytes

// directCall reads from a socket, or writes to it, and does not wait. Calls that move few bytes bypass Go's
// scheduler. In a mostly idle process the scheduler would wake its monitor thread for each call, although the call
// returns sooner. The monitor is needed to interrupt goroutines that run for long, but such a goroutine moves many
// bytes, so it also makes ordinary calls, which wake the monitor.
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
