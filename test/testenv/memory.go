package testenv

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// InUse returns the bytes of heap and stacks in use after garbage collection.
func InUse() int64 {
	runtime.GC()
	runtime.GC() // a sync.Pool is emptied by two collections
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// OwnPeak returns the peak resident memory of a process in bytes, without file mappings. These, its
// program's code above all, are shared between processes and dropped when the system needs memory.
func OwnPeak(t testing.TB, pid int) int64 {
	t.Helper()
	return ProcessMemory(t, pid, "VmHWM") - ProcessMemory(t, pid, "RssFile")
}

// ProcessMemory returns a size in bytes from /proc/PID/status: VmRSS is the resident memory, VmHWM its
// peak. On systems other than Linux the test is skipped.
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
