package rollout

import (
	"errors"
	"os/exec"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// The base backup of a tool that was killed continues by itself. No other command touches the directory until
// it has ended.
func TestBackupOfEarlierTry(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	c := newCell(t)
	made := c.Nodes[0].Replacement
	var orphan *exec.Cmd
	r := &Rollout{Cell: c, Yes: true}
	r.dies = func(s Step, done bool) bool {
		if s == StepBackup && !done && orphan == nil {
			command := remoteCommand(made.Run, "flock", made.marker(), "sh", "-c", "echo $$ > "+made.Directory+"/half; exec sleep 1000")
			orphan = exec.CommandContext(t.Context(), command[0], command[1:]...)
			if err := orphan.Start(); err != nil {
				t.Fatal(err)
			}
			testenv.Eventually(t, "the earlier try writes", func() bool {
				is, err := made.exists(t.Context(), made.Directory+"/half")
				return is && err == nil
			})
		}
		return false
	}
	if err := r.Run(t.Context()); !errors.Is(err, errAtWork) {
		t.Errorf("beside it: %v", err)
	}
	_ = orphan.Process.Kill() // flock; its child has the lock, too
	_ = orphan.Wait()
	if err := r.Run(t.Context()); !errors.Is(err, errAtWork) {
		t.Errorf("behind its parent's end: %v", err)
	}
	if _, err := made.command(t.Context(), "sh", "-c", "kill $(cat "+made.Directory+"/half)"); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); err != nil {
		t.Error(err)
	}
	onePrimaryAtMost(t, c)
}
