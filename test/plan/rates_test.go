package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cinch-layer/cinch/internal/estimate/plan"
	"github.com/cinch-layer/cinch/test/testenv"
)

// loaded returns a server that has just been started and filled.
func loaded(t *testing.T) *testenv.RedisServer {
	server := testenv.Redis(t)
	c, r := connect(t, server.Addr), rand.New(rand.NewPCG(3, 3))
	pipe := c.Pipeline()
	for i := range 3000 {
		pipe.Set(context.Background(), fmt.Sprintf("order:%d", i), document(r), 0)
	}
	_, err := pipe.Exec(context.Background())
	must(t, nil, err)
	return server
}

// A plan of a server that has just been loaded does not take the writes of loading as a reason to leave
// values alone.
func TestPlanOfWhatWasJustLoaded(t *testing.T) {
	t.Parallel()
	r := report(t, loaded(t).URL(), "--share", "90%")
	if !r.Assumed || r.Observed.Writes < 10 || r.Doubt == "" {
		t.Errorf("assumed %v, observed %+v, doubt %q", r.Assumed, r.Observed, r.Doubt)
	}
	if o := r.Groups[0].Chosen(); o == nil || o.Ratio < 1.5 {
		t.Errorf("%s: %+v", r.Groups[0].Why, o)
	}
}

// terminal returns the two ends of a pseudo-terminal.
func terminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("there are no terminals: %v", err)
	}
	t.Cleanup(func() { ours.Close() })
	must(t, nil, unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	must(t, nil, err)
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, nil, err)
	t.Cleanup(func() { theirs.Close() })
	return ours, theirs
}

// At a terminal, cinch plan asks for rates and uses the answers; otherwise it does not wait for them.
func TestPlanAsksForRates(t *testing.T) {
	t.Parallel()
	server := loaded(t)
	ours, theirs := terminal(t)
	_, err := ours.WriteString("20k\n500\n") // typed in advance
	must(t, nil, err)
	cmd := exec.Command(testenv.Cinch(t), "plan", server.URL(), "--share", "90%", "--candidates", "lz4,zstd-3")
	var out strings.Builder
	cmd.Stdin, cmd.Stderr, cmd.Stdout = theirs, theirs, &out
	must(t, nil, cmd.Run())
	if !strings.Contains(out.String(), "At 20k reads and 500 writes a second") {
		t.Errorf("%s", out.String())
	}
	e := cinch(t, "plan", server.URL(), "--share", "90%", "--candidates", "lz4,zstd-3")
	if e.code != 0 || !strings.Contains(strings.Join(strings.Fields(e.out), " "), "were counted, but it") || !strings.Contains(e.out, "--reads") {
		t.Errorf("%d %s%s", e.code, e.out, e.err)
	}
}

// Rates that exceed the link's capacity are questioned.
func TestPlanQuestionsRates(t *testing.T) {
	t.Parallel()
	file := documentsFile(t)
	e := cinch(t, "plan", "--json", file, "--candidates", "lz4", "--reads", "1e6", "--link", "100mbit,1ms")
	var r plan.Report
	must(t, nil, json.Unmarshal([]byte(e.out), &r))
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "more than the link 100mbit,1ms carries") {
		t.Errorf("%s", notes)
	}
}
