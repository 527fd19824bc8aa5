package shadow

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// An impossible run is refused before clients are served, with the reason and without passwords.
func TestServersThatAreRefused(t *testing.T) {
	production, control := testenv.Redis(t), testenv.Redis(t)
	replica := testenv.Redis(t, "--replicaof", "127.0.0.1 1")
	login := testenv.Redis(t, "--requirepass", "p")
	node := testenv.ClusterNode(t)
	for _, c := range []struct{ production, test, want string }{
		{production.URL(), replica.URL(), "it is a replica"},
		{production.URL(), "cinch=" + replica.URL(), "it is a replica"},
		{production.URL(), "redis://:s3cret@" + login.Addr, "WRONGPASS"},
		{production.URL(), node.URL(), "it is a node of a cluster"},
		{node.URL(), login.URL(), "it is a node of a cluster"},
		{production.URL(), "redis://127.0.0.1:1", "connection refused"},
	} {
		cmd := exec.CommandContext(t.Context(), testenv.Cinch(t), "shadow", "--redis", "127.0.0.1:0="+c.production, "--control", control.URL(), "--test", c.test)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		var exit *exec.ExitError
		if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		said := out.String()
		if code := cmd.ProcessState.ExitCode(); code != 10 || !strings.Contains(said, c.want) || strings.Contains(said, "s3cret") || strings.Contains(said, "clients may connect") {
			t.Errorf("production %s, test %s: exit code %d: %s", c.production, c.test, code, said)
		}
	}
}
