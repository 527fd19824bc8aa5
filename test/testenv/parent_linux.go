package testenv

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// dieWithParent makes the kernel kill what a test started when the test binary itself dies
// of a panic or a timeout and runs no cleanup.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// goTest returns the process and the start time of the go command that runs this test binary, or "" if it was started otherwise.
func goTest() string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", os.Getppid()))
	fields := bytes.Fields(stat)
	if err != nil || len(fields) < 22 || string(fields[1]) != "(go)" {
		return ""
	}
	return fmt.Sprintf("%s %s", fields[0], fields[21])
}
