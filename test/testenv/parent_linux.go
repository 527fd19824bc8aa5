package testenv

import "syscall"

// dieWithParent makes the kernel kill the processes that a test started if the test process dies of a panic
// or a timeout, without running its clean-up.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
