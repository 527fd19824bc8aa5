package proc

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc/stat: Linux's USER_HZ.
const tick = 10 * time.Millisecond

// Busy is how long the machine's CPUs together have been at work since it started, what a hypervisor took included; 0 where that is not known.
func Busy() (sum time.Duration) {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	// cpu user nice system idle iowait irq softirq steal guest guest_nice, the last two being part of the first
	for i, field := range strings.Fields(line) {
		n, err := strconv.ParseInt(field, 10, 64)
		if err == nil && i != 4 && i != 5 && i <= 8 {
			sum += time.Duration(n) * tick
		}
	}
	return sum
}
