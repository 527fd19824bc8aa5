package limits

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cinch-layer/cinch/test/testenv"
)

// A gateway without free file descriptors refuses clients, logs why, and keeps reporting it: the admin page
// has some descriptors in reserve.
//
// A client takes two descriptors: with one of the two limits one is left over.
func TestOutOfDescriptors(t *testing.T) {
	t.Parallel()
	for _, limit := range []uint64{96, 97} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) { outOfDescriptors(t, limit) })
	}
}

func outOfDescriptors(t *testing.T, most uint64) {
	_, g := start(t)
	testenv.AdminPage(t, g.Admin, "/readyz") // on a kept-alive connection, such as a monitor's
	idle := open(t, g)
	limit := unix.Rlimit{Cur: most, Max: most}
	if err := unix.Prlimit(g.Pid(), unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	served, refused := crowd(t, g, 120)
	if len(served) == 0 || refused == 0 {
		t.Fatalf("%d clients served, %d refused", len(served), refused)
	}
	// The gateway probes itself once a second. A single answer might fall into a moment at which a client
	// that is being refused has the last descriptor.
	var since time.Time
	testenv.Eventually(t, "readiness says three times what is missing", func() bool {
		if open(t, g) > idle+2*len(served) {
			return false // held by a client that was refused
		}
		status, body := testenv.AskAdmin(t, g.Admin, "/readyz")
		// A descriptor that the process held only for a moment may be free for a client again.
		more, _ := crowd(t, g, 1)
		served = append(served, more...)
		if status != http.StatusServiceUnavailable || !strings.Contains(body, fmt.Sprint("out of file descriptors: the limit is ", most)) {
			since = time.Time{}
			return false
		}
		if since.IsZero() {
			since = time.Now()
		}
		return time.Since(since) > 3*time.Second
	})
	if !strings.Contains(g.Output(), "LimitNOFILE=") || strings.Contains(g.Output(), "upstream unreachable") {
		t.Errorf("the log does not say what to do, or names a culprit that is none:\n%s", g.Output())
	}
	if n := g.Metric(t, `cinch_errors_total{class="descriptors",gateway="redis"}`); n == 0 {
		t.Error("nothing was counted")
	}
	for _, c := range served {
		if err := c.ping(); err != nil {
			t.Errorf("a client that was there before: %v", err)
		}
		_ = c.Close()
	}
	testenv.Eventually(t, "it is ready again", func() bool {
		status, _ := testenv.AskAdmin(t, g.Admin, "/readyz")
		return status == http.StatusOK
	})
}

// open returns the number of the gateway's file descriptors.
func open(t *testing.T, g *testenv.GatewayServer) int {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", g.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// crowd connects n clients, some of which are refused.
func crowd(t *testing.T, g *testenv.GatewayServer, n int) (served []*client, refused int) {
	t.Helper()
	for range n {
		c := mustDial(t, g.Addr)
		if c.ping() == nil {
			served = append(served, c)
			continue
		}
		refused++
		_ = c.Close()
	}
	return served, refused
}
