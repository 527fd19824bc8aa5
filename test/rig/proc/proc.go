// Package proc reads Linux's data about a running process.
package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cpuClock selects the process clock that the scheduler keeps, in nanoseconds: CPUCLOCK_SCHED of Linux's
// posix-timers_types.h. /proc/PID/stat has steps of 10 ms.
const cpuClock = 2

// CPU returns the user and system time that a process has used.
func CPU(pid int) (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|cpuClock), &t); err != nil {
		return 0, fmt.Errorf("CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// Peak returns the peak memory of a process in bytes: VmHWM. The maximum that wait(2) reports is unsuitable,
// since it begins with the parent's memory.
func Peak(pid int) (int64, error) { return memory(pid, "VmHWM:") }

// Resident returns the resident memory of a process in bytes: VmRSS.
func Resident(pid int) (int64, error) { return memory(pid, "VmRSS:") }

func memory(pid int, field string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(text), field)
	if !ok {
		return 0, fmt.Errorf("process %d has no %s", pid, field)
	}
	kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	return kb << 10, err
}
