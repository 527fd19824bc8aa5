package testenv

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// InUse is what heap and stacks take when everything that is not needed has gone.
func InUse() int64 {
	runtime.GC()
	runtime.GC() // pools are emptied in two steps
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// OwnPeak is the most bytes that a process has held itself: without what is mapped of files, its own program's first of all, which processes share and the
// system drops when it wants the room.
func OwnPeak(t testing.TB, pid int) int64 {
	t.Helper()
	return ProcessMemory(t, pid, "VmHWM") - ProcessMemory(t, pid, "RssFile")
}

// ProcessMemory reads a size in bytes from the kernel's account of a process: VmRSS is what it holds, VmHWM the most that it has held.
// Elsewhere than on Linux the test is skipped.
func ProcessMemory(t testing.TB, pid int, name string) int64 {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			return kib << 10
		}
	}
	t.Fatalf("no %s in\n%s", name, text)
	return 0
}
