package proc

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc/stat: 1/USER_HZ of Linux.
const tick = 10 * time.Millisecond

// Busy returns the time that all CPUs together have been busy since boot, including time stolen by a
// hypervisor, or 0 where it is unknown.
func Busy() (sum time.Duration) {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	// The fields are: cpu user nice system idle iowait irq softirq steal guest guest_nice. guest and
	// guest_nice are part of user and nice.
	for i, field := range strings.Fields(line) {
		n, err := strconv.ParseInt(field, 10, 64)
		if err == nil && i != 4 && i != 5 && i <= 8 {
			sum += time.Duration(n) * tick
		}
	}
	return sum
}
