package limits

import (
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

const mb = 1 << 20

// memory is the resident memory of a process in bytes.
type memory struct{ now, peak int64 }

func memoryOf(t testing.TB, pid int) memory {
	t.Helper()
	return memory{testenv.ProcessMemory(t, pid, "VmRSS"), testenv.ProcessMemory(t, pid, "VmHWM")}
}

// mustStayUnder checks that the peak of a process is below its limit.
func mustStayUnder(t testing.TB, pid int, limit int64) {
	t.Helper()
	m := memoryOf(t, pid)
	t.Logf("resident: peak %.1f MB, now %.1f MB; limit %.0f MB", inMB(m.peak), inMB(m.now), inMB(limit))
	if m.peak >= limit {
		t.Errorf("the gateway's peak is %.1f MB, the limit %.0f MB", inMB(m.peak), inMB(limit))
	}
}

func inMB(n int64) float64 { return float64(n) / mb }
