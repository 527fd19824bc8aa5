package link

import (
	"syscall"
	"time"
)

// sleep asks the kernel: timers of Go are late by up to a millisecond, which is longer than the delays of a local network.
func sleep(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&ts, nil)
}
