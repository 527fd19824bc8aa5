package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// TreeCPU returns the CPU time of a process and its living descendants.
func TreeCPU(pid int) time.Duration {
	sum, _ := CPU(pid)
	for _, child := range Children(pid) {
		sum += TreeCPU(child)
	}
	return sum
}

// Children returns the living children of a process.
func Children(pid int) (found []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list) // fails if the thread has ended meanwhile
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				found = append(found, child)
			}
		}
	}
	return found
}

// Threads returns the ids of a process's threads, none if it has ended.
func Threads(pid int) (found []int) {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, task := range tasks {
		if id, err := strconv.Atoi(task.Name()); err == nil {
			found = append(found, id)
		}
	}
	return found
}
