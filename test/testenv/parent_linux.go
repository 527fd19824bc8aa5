package testenv

import "syscall"

// dieWithParent makes the kernel kill what a test started when the test binary itself dies
// of a panic or a timeout and runs no cleanup.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
