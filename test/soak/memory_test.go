package soak

import (
	"fmt"
	"os"
	"strings"
)

// resident is the memory that a process has in use, in bytes.
func resident(pid int) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	var kb float64
	_, _ = fmt.Sscan(rest, &kb)
	return kb * 1024
}
