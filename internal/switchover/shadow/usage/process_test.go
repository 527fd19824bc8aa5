package usage

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

// The use of a child counts while it runs and after it has ended.
func TestProcesses(t *testing.T) {
	testenv.NeedsPrograms(t)
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	file := filepath.Join(t.TempDir(), "written")
	before, err := processes(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; head -c 4000000 /dev/zero > "+file+"; read x; true")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if parent, err := Parent(child.Process.Pid); err != nil || parent != os.Getpid() {
		t.Errorf("parent %d, %v", parent, err)
	}
	_ = in.Close()
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	after, err := processes(os.Getpid())
	if err != nil || after.cpu < before.cpu+20*time.Millisecond {
		t.Errorf("%+v, then %+v, %v", before, after, err)
	}
}
