// Package scripts tests what the scripts share.
package scripts

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

// startedScript starts processes that hold its standard output open: a process group and a background job
// in it, which ignores SIGINT as jobs of scripts do.
const startedScript = `set -euo pipefail
. ./processes
run() { (while :; do sleep 1000; done) & echo "$work"; while :; do sleep 1000; done; }
start run
wait "$started"
echo "it went on"`

// Any signal that ends a script, sent to the script alone or to its process group, ends all processes that
// it has started and removes its files. The caller sees the signal.
func TestSignalsEndScripts(t *testing.T) {
	t.Parallel()
	bash := testenv.Program(t, "bash")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		// The parent may be nohup, which ignores SIGHUP. A script can't trap a signal that its parent
		// ignores, so it must not inherit that.
		if signal.Ignored(sig) {
			caught := make(chan os.Signal, 1)
			signal.Notify(caught, sig)
			defer signal.Ignore(sig)
		}
		for _, toGroup := range []bool{false, true} {
			cmd := exec.Command(bash, "-c", startedScript)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			out, in, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			cmd.Stdout, cmd.Stderr = in, in
			err = cmd.Start()
			_ = in.Close()
			if err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(out)
			work, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			pid := cmd.Process.Pid
			if toGroup {
				pid = -pid
			}
			if err := syscall.Kill(pid, sig); err != nil {
				t.Fatal(err)
			}
			_ = out.SetReadDeadline(time.Now().Add(3 * time.Minute))
			rest, err := io.ReadAll(lines) // ends when the last of its processes ends
			if err != nil || bytes.Contains(rest, []byte("it went on")) {
				t.Errorf("%v, to its group: %t: %q, %v", sig, toGroup, rest, err)
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // otherwise Wait would block
			}
			_ = cmd.Wait()
			if state := cmd.ProcessState.Sys().(syscall.WaitStatus); !state.Signaled() || state.Signal() != sig {
				t.Errorf("%v, to its group: %t: %v", sig, toGroup, cmd.ProcessState)
			}
			if _, err := os.Stat(strings.TrimSpace(work)); !os.IsNotExist(err) {
				t.Errorf("%v, to its group: %t: its directory: %v", sig, toGroup, err)
			}
		}
	}
}
