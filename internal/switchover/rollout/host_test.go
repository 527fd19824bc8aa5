package rollout

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

var words = []string{"printf", "%s|", "plain", "two words", "it's", `"$HOME" \ $(id)`, "a;b&c", "*", "", "~", "ümläut", "line\nline", "-e", "x=y"}

// ssh passes the command to a shell, which must see the same words.
func TestQuoted(t *testing.T) {
	testenv.NeedsPrograms(t)
	out, err := exec.Command("sh", "-c", shellQuote(words)).Output()
	if want := strings.Join(words[2:], "|") + "|"; err != nil || string(out) != want {
		t.Errorf("%v\n%q\n%q", err, out, want)
	}
}

// Only words that a shell would change are quoted.
func TestCommandsElsewhere(t *testing.T) {
	if got := remoteCommand([]string{"sudo", "-u", "postgres"}, words...); !slices.Equal(got[3:], words) {
		t.Errorf("%q", got)
	}
	if got := strings.Join(remoteCommand([]string{"/usr/bin/ssh", "db1"}, "pg_ctl", "status", "-D", "/var/lib/postgresql/15/main"), " "); got != "/usr/bin/ssh db1 pg_ctl status -D /var/lib/postgresql/15/main" {
		t.Error(got)
	}
}

// A primary moves when its machines are reached by ssh, as is usual, and directory names have characters that
// a shell would interpret.
func TestOverSSH(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	ssh := testenv.SSH(t, "postgres")
	c := newCell(t)
	a, made := &c.Nodes[0], c.Nodes[0].Replacement
	a.Run, made.Run = ssh, ssh
	// No $: pg_ctl itself passes it to a shell.
	made.Directory = filepath.Join(filepath.Dir(made.Directory), "it's a new place")
	out, err := a.command(t.Context(), words[0], words[1:]...)
	if want := strings.Join(words[2:], "|") + "|"; err != nil || out != want {
		t.Fatalf("%v\n%q\n%q", err, out, want)
	}
	mustExec(t, a, "CREATE TABLE t AS SELECT i FROM generate_series(1, 1000) AS i")
	if err := (&Rollout{Cell: c, Yes: true, DestroyOld: true}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rows, err := value[int](t.Context(), made, "SELECT count(*) FROM t"); err != nil || rows != 1000 {
		t.Errorf("%d rows, %v", rows, err)
	}
	if is, err := a.exists(t.Context(), filepath.Join(a.Directory, "PG_VERSION")); err != nil || is {
		t.Errorf("the old data are there: %v, %v", is, err)
	}
}
