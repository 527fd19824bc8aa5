package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// served is the text that a successor writes when it serves.
const served = "serving"

var (
	errFirst     = errors.New("this is process 1 of a container, and the container ends with it: replace the container, or send SIGHUP")
	errSucceeded = errors.New("this process has been replaced already")
)

// program is the executable to start a successor from: this process's path, at which a new version may lie.
// It is determined at the start, since a relative path depends on the working directory.
var program, programErr = ownProgram()

func ownProgram() (string, error) {
	path, err := exec.LookPath(os.Args[0])
	if err != nil {
		return os.Executable()
	}
	return filepath.Abs(path)
}

// Replace starts the program again, with the same arguments and environment and with all sockets, and waits
// until it serves. From then on both processes own the sockets, so that closing them here refuses no client.
// If it fails, or ctx ends, nothing has changed. ended is called if the successor ends before this process.
func (s *Sockets) Replace(ctx context.Context, ended func(how string)) (pid int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case os.Getpid() == 1:
		return 0, errFirst
	case s.successor != 0:
		return 0, errSucceeded
	case programErr != nil:
		return 0, programErr
	}
	passed := append(s.open(), s.given...)
	next, err := start(passed)
	if err != nil {
		return 0, err
	}
	if err := next.await(ctx); err != nil {
		return 0, err
	}
	for _, k := range passed {
		k.keepFile(true)
	}
	s.successor = next.process.Pid
	go func() {
		if state, err := next.process.Wait(); err == nil {
			ended(state.String())
		}
	}()
	return s.successor, nil
}

// successor is a process that was started but does not serve yet.
type successor struct {
	process *os.Process
	says    *os.File
}

// start starts a process with sockets. Descriptors are passed as numbers: passing a File would make it
// blocking, and with it the socket that this process still accepts on.
func start(passed []*socket) (*successor, error) {
	text, err := json.Marshal(passed)
	if err != nil {
		return nil, err
	}
	says, ready, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ready.Close()
	descriptors := []uintptr{0, 1, 2, ready.Fd()}
	defer func() {
		for _, fd := range descriptors[firstDescriptor+1:] {
			_ = unix.Close(int(fd))
		}
	}()
	for _, k := range passed {
		fd, err := duplicate(k.listener.(syscall.Conn))
		if err != nil {
			_ = says.Close()
			return nil, fmt.Errorf("%s: %w", k.Name, err)
		}
		descriptors = append(descriptors, fd)
	}
	pid, err := syscall.ForkExec(program, os.Args, &syscall.ProcAttr{
		Env: append(environment(), socketsVariable+"="+string(text)), Files: descriptors,
	})
	if err != nil {
		_ = says.Close()
		return nil, fmt.Errorf("%s: %w", program, err)
	}
	process, err := os.FindProcess(pid)
	return &successor{process, says}, err
}

// environment returns this process's environment without systemd's variables for this very process.
func environment() (list []string) {
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if name != "WATCHDOG_PID" && !strings.HasPrefix(name, "LISTEN_") {
			list = append(list, v)
		}
	}
	return list
}

func duplicate(c syscall.Conn) (fd uintptr, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	controlErr := raw.Control(func(own uintptr) {
		var n int
		n, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0)
		fd = uintptr(n)
	})
	return fd, errors.Join(err, controlErr)
}

// await waits until the successor serves. It kills one that fails or takes too long.
func (n *successor) await(ctx context.Context) error {
	defer n.says.Close()
	defer context.AfterFunc(ctx, func() { _ = n.says.SetReadDeadline(time.Unix(1, 0)) })()
	text, err := io.ReadAll(n.says)
	if string(text) == served {
		return nil
	}
	if err == nil {
		err = errors.New("the new process ended before it was ready; see its log")
	} else if ctx.Err() != nil {
		err = fmt.Errorf("the new process is not ready: %w", context.Cause(ctx))
	}
	_ = n.process.Kill()
	_, _ = n.process.Wait()
	return err
}
