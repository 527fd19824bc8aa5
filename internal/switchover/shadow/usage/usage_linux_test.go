package usage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A server of another user, of which only some figures can be read, has no CPU time but what it reports itself.
func TestUnreadableProcess(t *testing.T) {
	server, skip := os.Getppid(), ""
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with its goroutine, as the user is that of the thread only
		if os.Getuid() == 0 {
			if _, _, err := syscall.RawSyscall(syscall.SYS_SETRESUID, 65534, 65534, 65534); err != 0 {
				skip = err.Error()
				return
			}
		} else {
			server = 1
		}
		_, unreadable := os.ReadFile(fmt.Sprintf("/proc/%d/io", server))
		if _, err := stat(server); err != nil || !errors.Is(unreadable, fs.ErrPermission) {
			skip = fmt.Sprintf("process %d: %v, %v", server, err, unreadable)
			return
		}
		for _, reported := range []time.Duration{0, 3 * time.Second} {
			u := Of(t.Context(), Size{Process: server, CPU: reported}, "")
			if u.CPU != reported.Seconds() || u.Read != 0 || u.Written != 0 || !strings.Contains(strings.Join(u.Missing, ""), "CPU and I/O") {
				t.Errorf("%+v", u)
			}
		}
	}()
	<-done
	if skip != "" {
		t.Skip(skip)
	}
}
