package limits

import (
	"net/http"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cinch-layer/cinch/test/testenv"
)

// A gateway that has no file descriptors left turns clients away, says why, and goes on telling
// so: the admin page has some in reserve.
func TestOutOfDescriptors(t *testing.T) {
	_, g := start(t)
	limit := unix.Rlimit{Cur: 96, Max: 96}
	if err := unix.Prlimit(g.Pid(), unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	served, refused := crowd(t, g, 120)
	if len(served) == 0 || refused == 0 {
		t.Fatalf("%d clients served, %d refused", len(served), refused)
	}
	testenv.Eventually(t, "readiness says what is missing", func() bool {
		status, body := testenv.AskAdmin(t, g.Admin, "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "out of file descriptors: the limit is 96")
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

// crowd connects n clients, of whom not all are served.
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
