package history

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

const killDir = "CINCH_HISTORY_KILL_DIR"

// TestWriterThatIsKilled is not a test, but the process that TestKill kills.
func TestWriterThatIsKilled(t *testing.T) {
	dir := os.Getenv(killDir)
	if dir == "" {
		t.Skip("run by TestKill")
	}
	h := open(t, dir, 0)
	for i := int64(0); ; i++ {
		h.Add(start.Add(time.Duration(i)*Interval), []Sample{counter("bytes", "g", "r", 10*i)})
		if i%syncEvery == syncEvery-1 { // Add has synced
			fmt.Println("kept", 10*i)
		}
	}
}

// A process that is killed while it writes, closes or compresses a segment keeps everything that it has
// synced.
func TestKill(t *testing.T) {
	testenv.NeedsPrograms(t)
	dir, want := t.TempDir(), 0.0
	for _, lines := range []int{1, 50, 130, 300} {
		kept := killAfter(t, dir, lines)
		want += kept
		h := open(t, dir, 0)
		got := line(t, ask(t, h, start.Add(-time.Hour), start.AddDate(0, 1, 0), 0), "bytes").Sum()
		if got < want {
			t.Errorf("%v are left of %v", got, want)
		}
		want = got
		h.Close()
	}
	if left := mustGlob(t, dir, "*"+asideSuffix); len(left) > 0 {
		t.Errorf("set aside: %v", left)
	}
}

// killAfter kills a writer after that many lines of output, and returns the last value that it reported as
// kept.
func killAfter(t *testing.T, dir string, lines int) (kept float64) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestWriterThatIsKilled$", "-test.v")
	cmd.Env = append(os.Environ(), killDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for in := bufio.NewScanner(out); in.Scan(); {
		var text string
		if n, _ := fmt.Sscanf(in.Text(), "kept %s", &text); n != 1 {
			continue
		}
		kept, _ = strconv.ParseFloat(text, 64)
		if lines--; lines == 0 {
			_ = cmd.Process.Kill()
		}
	}
	_ = cmd.Wait()
	return kept
}
