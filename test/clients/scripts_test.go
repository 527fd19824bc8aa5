package clients

import (
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

// redis-py calls SCRIPT EXISTS before it puts EVALSHA into a pipeline, and does not load scripts that the
// server knows. A gateway that has not seen a script being loaded, because it was restarted or is another
// one, must make redis-py load it again.
func TestScriptsAtAnotherGateway(t *testing.T) {
	if testing.Short() {
		t.Skip("needs redis-py")
	}
	want := runScripts(t, testenv.Redis(t).Addr)
	server := testenv.Redis(t)
	cfg := testenv.GatewayConfig{Upstream: server.Addr, Rules: sealAllTypes}
	first, second := testenv.Gateway(t, cfg), testenv.Gateway(t, cfg)
	compare(t, want, runScripts(t, first.Addr))
	t.Run("another", func(t *testing.T) { compare(t, want, runScripts(t, second.Addr)) })
	t.Run("restarted", func(t *testing.T) {
		first.Kill()
		if err := first.Restart(); err != nil {
			t.Fatal(err)
		}
		compare(t, want, runScripts(t, first.Addr))
	})
	if second.Metric(t, "cinch_values_sealed_total") == 0 {
		t.Error("nothing was sealed, so nothing was tested")
	}
}

func runScripts(t *testing.T, addr string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), testenv.Python(t, "python/requirements.txt"), "python/scripts.py", host, port)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1")
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}
