package proc

import (
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
	for _, child := range Children(pid) {
		sum += TreeCPU(child)
	}
	return sum
}

// Children are the processes that a process has started and that still live.
func Children(pid int) (found []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list) // or the thread has ended meanwhile
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				found = append(found, child)
			}
		}
	}
	return found
}

// Threads are the ids of a process's threads, none when it has ended.
func Threads(pid int) (found []int) {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, task := range tasks {
		if id, err := strconv.Atoi(task.Name()); err == nil {
			found = append(found, id)
		}
	}
	return found
}
