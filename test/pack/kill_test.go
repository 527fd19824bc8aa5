package pack

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

// TestKilledAndResumed kills two packers that share the keys at random moments, and resumes them from their
// state files.
func TestKilledAndResumed(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	c := connect(t, server.Addr)
	fill(t, c, 2000, 300, 700)
	before := contents(t, c, newSealer(nil))
	var workers sync.WaitGroup
	dir := t.TempDir()
	program := testenv.Cinch(t)
	for k := 1; k <= 2; k++ {
		workers.Go(func() {
			args := []string{"pack", server.URL(), plainRule, "--worker", fmt.Sprint(k, "/2"), "--no-backoff", "--keys-per-second", "1300", "--state", filepath.Join(dir, fmt.Sprint(k))}
			for try := 1; ; try++ {
				cmd := exec.Command(program, args...)
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				if try <= 3 {
					time.AfterFunc(time.Duration(try)*150*time.Millisecond, func() { _ = cmd.Process.Kill() })
				}
				if err := cmd.Wait(); err == nil {
					return
				} else if try > 3 {
					t.Errorf("worker %d: %v\n%s", k, err, out.String())
					return
				}
			}
		})
	}
	workers.Wait()
	sameContents(t, "after kills", contents(t, c, storeSealer(c)), before)
	if n := sealed(before, c); n != 2000 {
		t.Errorf("%d of 2000 strings are sealed", n)
	}
	expect(t, 0, []string{"verify", server.URL()}, "opens: zstd")
}

func TestInterruptedAndResumed(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	c := connect(t, server.Addr)
	fill(t, c, 4000, 0, 500) // eight pages, of which four are in work at once
	before := contents(t, c, newSealer(nil))
	state := filepath.Join(t.TempDir(), "state")
	args := []string{"pack", server.URL(), "--state", state, plainRule}
	cmd := exec.Command(testenv.Cinch(t), append(args, "--no-backoff", "--keys-per-second", "1000")...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	testenv.Eventually(t, "it is under way", func() bool { return sealed(before, c) > 0 })
	must(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(out.String(), "continues from here") {
		t.Fatalf("ended with %d:\n%s", code, out.String())
	}
	text, err := os.ReadFile(state)
	must(t, err)
	if !bytes.Contains(text, []byte(`"done": false`)) || bytes.Contains(text, []byte(`"cursor": 0`)) {
		t.Errorf("no position was saved: %s", text)
	}
	done := sealed(before, c)
	if done == 0 || done == 4000 {
		t.Fatalf("%d sealed at the interruption", done)
	}

	expect(t, 1, []string{"pack", server.URL(), "--state", state, "--rule", "key=other:*,setting=lz4"}, "the rules have changed", "hint: give another --state")
	expect(t, 1, []string{"unpack", server.URL(), "--state", state}, "the state file belongs to another run")
	e := expect(t, 0, args)
	if e.prints("keys looked at 4000 of 4000") {
		t.Errorf("it began anew:\n%s", e.out)
	}
	sameContents(t, "after resuming", contents(t, c, storeSealer(c)), before)
	if n := sealed(before, c); n != 4000 {
		t.Errorf("%d of 4000 sealed", n)
	}
}

// A restarted server has new cursors, so that a packer's stored position is invalid.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t, "--appendonly", "yes")
	c := connect(t, server.Addr)
	fill(t, c, 4000, 0, 500) // eight pages, of which most are to be found after the restart
	before := contents(t, c, newSealer(nil))
	cmd := exec.Command(testenv.Cinch(t), "pack", server.URL(), plainRule, "--no-backoff", "--keys-per-second", "1000")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	testenv.Eventually(t, "it is under way", func() bool { return sealed(before, c) > 0 })
	must(t, cmd.Process.Signal(syscall.SIGSTOP))
	server.Kill()
	must(t, server.Restart())
	must(t, cmd.Process.Signal(syscall.SIGCONT))
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "server was restarted") {
		t.Errorf("nothing was said of it:\n%s", out.String())
	}
	c = connect(t, server.Addr)
	if n := sealed(before, c); n != 4000 {
		t.Errorf("%d of 4000 sealed", n)
	}
	sameContents(t, "after the restart", contents(t, c, storeSealer(c)), before)
}
