package rig

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/test/rig/proc"
)

// Machine describes the machine: CPU model, number of CPUs, Go version.
func Machine() string {
	model := "unknown CPU"
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	return fmt.Sprintf("%s, %d CPUs, %s", model, runtime.NumCPU(), runtime.Version())
}

// LoadAverage returns the load average of the last minute, "?" where it is unknown.
func LoadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "?"
	}
	load, _, _ := strings.Cut(string(text), " ")
	return load
}

// Watch measures the other load of the machine while something is measured.
type Watch struct {
	began      time.Time
	load       string
	busy, ours time.Duration
}

// Crowd is the load that a Watch has seen.
type Crowd struct {
	LoadBefore string  `json:"load_before"` // average of the minute before
	LoadAfter  string  `json:"load_after"`
	Others     float64 `json:"others"` // share of all CPUs used by other processes
}

// StartWatch starts a watch. The CPU time of this process and its descendants does not count as other load. A
// descendant that ends before End does.
func StartWatch() Watch {
	return Watch{time.Now(), LoadAverage(), proc.Busy(), proc.TreeCPU(os.Getpid())}
}

// End returns the load since StartWatch.
func (w Watch) End() Crowd {
	others := proc.Busy() - w.busy - (proc.TreeCPU(os.Getpid()) - w.ours)
	all := time.Since(w.began) * time.Duration(runtime.NumCPU())
	return Crowd{w.load, LoadAverage(), max(0, float64(others)/float64(all))}
}

func (c Crowd) String() string {
	return fmt.Sprintf("load average %s before and %s after, of which this is a part; other processes took %.0f %% of the CPUs", c.LoadBefore, c.LoadAfter, 100*c.Others)
}
