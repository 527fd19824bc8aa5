package limits

import (
	"fmt"
	"net"
	"net/http"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cinch-layer/cinch/test/testenv"
)

// One client opens more idle connections to the admin page than the process has file descriptors. Probes
// are still answered, and clients of the gateway are still served.
func TestIdleAdminConnections(t *testing.T) {
	t.Parallel()
	const descriptors = 128
	_, g := start(t)
	limit := unix.Rlimit{Cur: descriptors, Max: descriptors}
	if err := unix.Prlimit(g.Pid(), unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	before := open(t, g)
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	for range 2 * descriptors {
		c, err := from.Dial("tcp", g.Admin)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = fmt.Fprint(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	for range 10 {
		for _, path := range []string{"/healthz", "/readyz"} {
			if status, body := testenv.AskAdmin(t, g.Admin, path); status != http.StatusOK {
				t.Errorf("%s: %d %s", path, status, body)
			}
		}
	}
	served, refused := crowd(t, g, 10)
	if len(served) != 10 || refused != 0 {
		t.Errorf("%d clients served, %d refused", len(served), refused)
	}
	for _, c := range served {
		_ = c.Close()
	}
	testenv.Eventually(t, "an eighth of the descriptors at most", func() bool { return open(t, g) <= before+descriptors/8+4 })
}
