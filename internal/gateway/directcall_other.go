//go:build !linux || race

package gateway

import "syscall"

// directCall reads from a socket, or writes to it, and does not wait. It uses package syscall, whose calls tell
// the race detector the order of events.
func directCall(writes bool, fd int, p []byte) (int, error) {
	if writes {
		return syscall.Write(fd, p)
	}
	return syscall.Read(fd, p)
}
