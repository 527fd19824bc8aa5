package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
		text, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended meanwhile
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if fields[1] != fmt.Sprint(pid) {
			continue
		}
		if child, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil {
			found = append(found, child)
		}
	}
	return found
}
