package proc

import (
	"path/filepath"
	"strconv"
	"time"
)

// TreeCPU is what a process and those that it started, which still live, have used together.
func TreeCPU(pid int) time.Duration {
	sum, _ := CPU(pid)
	for _, child := range children(pid) {
		sum += TreeCPU(child)
	}
	return sum
}

// children are the processes whose parent is pid.
func children(pid int) (found []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range files {
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil {
			continue
		}
		if fields, err := stat(child); err == nil && fields[1] == strconv.Itoa(pid) { // or it has ended meanwhile
			found = append(found, child)
		}
	}
	return found
}
