package link

import (
	"syscall"
	"time"
)

// sleep uses nanosleep: Go's timers are late by up to a millisecond, which is longer than a local network's
// delays.
func sleep(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&ts, nil)
}
