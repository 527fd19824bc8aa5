package limits

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

const mb = 1 << 20

// memory is what a process takes, in bytes, of physical memory.
type memory struct{ now, peak int64 }

func memoryOf(t testing.TB, pid int) memory {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	return memory{statusField(t, string(text), "VmRSS"), statusField(t, string(text), "VmHWM")}
}

// statusField reads a line like "VmRSS:	   14420 kB".
func statusField(t testing.TB, text, name string) int64 {
	t.Helper()
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			return kb << 10
		}
	}
	t.Fatalf("no %s in\n%s", name, text)
	return 0
}

// mustStayUnder checks the peak of a process against its limit.
func mustStayUnder(t testing.TB, pid int, limit int64) {
	t.Helper()
	m := memoryOf(t, pid)
	t.Logf("resident: peak %.1f MB, now %.1f MB; limit %.0f MB", inMB(m.peak), inMB(m.now), inMB(limit))
	if m.peak >= limit {
		t.Errorf("the gateway's peak is %.1f MB, the limit %.0f MB", inMB(m.peak), inMB(limit))
	}
}

func inMB(n int64) float64 { return float64(n) / mb }
