package rollout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"
	"syscall"
	"time"
)

// ErrCommand is wrapped by the failure of a command.
var ErrCommand = errors.New("the command failed")

// outputShown bounds what an error shows of a command's output.
const outputShown = 2 << 10

// command runs a program on a node's machine, and returns what it printed.
func (n *Node) command(ctx context.Context, name string, args ...string) (string, error) {
	return execute(ctx, nil, on(n.Run, append([]string{name}, args...)...))
}

// answerTime is for a command or a question that takes no time: longer than that, and the network has gone.
const answerTime = 30 * time.Second

// look runs a command that takes no time.
func (n *Node) look(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, fmt.Errorf("node %s: no answer within %v", n.Name, answerTime))
	defer cancel()
	return n.command(ctx, name, args...)
}

// replaceFile gives a file on a node's machine another content, and keeps its owner and mode. Nobody reads the old name with half of it. The content is no
// argument of a command, where others on the machine would see it.
func (n *Node) replaceFile(ctx context.Context, name string, content []byte) error {
	script := `umask 077 && cat > "$1.new" && if [ -e "$1" ]; then chmod --reference="$1" "$1.new"; chown --reference="$1" "$1.new" || true; fi &&
		sync "$1.new" && mv "$1.new" "$1" && sync "$(dirname "$1")"`
	_, err := executeWith(ctx, content, nil, on(n.Run, "sh", "-c", script, "sh", name))
	return err
}

// program is one of PostgreSQL's.
func (n *Node) program(name string) string {
	if n.Bin == "" {
		return name
	}
	return path.Join(n.Bin, name)
}

// killTime is how long a command that was ended may take for that.
const killTime = 10 * time.Second

// execute runs a command. It is ended, with those that it started, when the context is.
func execute(ctx context.Context, env, command []string) (string, error) {
	return executeWith(ctx, nil, env, command)
}

func executeWith(ctx context.Context, input []byte, env, command []string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = killTime
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if input != nil {
		cmd.Stdin = bytes.NewReader(input)
	}
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it ended well, and left a server behind that has its output
	}
	if err != nil {
		said := strings.TrimSpace(out.String() + errs.String())
		if len(said) > outputShown {
			said = "…" + said[len(said)-outputShown:]
		}
		return "", fmt.Errorf("%w: %s: %w: %s", ErrCommand, strings.Join(command, " "), errors.Join(context.Cause(ctx), err), said)
	}
	return out.String(), nil
}

// start starts the server of a node and waits until it takes connections.
func (n *Node) start(ctx context.Context) error {
	if len(n.Start) > 0 {
		_, err := n.command(ctx, n.Start[0], n.Start[1:]...)
		return err
	}
	_, err := n.command(ctx, n.program("pg_ctl"), "start", "--wait", "--silent", "-D", n.Directory, "-l", path.Join(n.Directory, "startup.log"))
	return err
}

// stop shuts the server of a node down, cleanly.
func (n *Node) stop(ctx context.Context, patience time.Duration) error {
	if len(n.Stop) > 0 {
		_, err := n.command(ctx, n.Stop[0], n.Stop[1:]...)
		return err
	}
	_, err := n.command(ctx, n.program("pg_ctl"), "stop", "--wait", "--silent", "-D", n.Directory, "-m", "fast", "-t", fmt.Sprint(int(patience.Seconds())))
	return err
}

// stopAnyhow shuts the server down, at last without a checkpoint: started again it reads its WAL.
func (n *Node) stopAnyhow(ctx context.Context, patience time.Duration) error {
	err := n.stop(ctx, patience)
	if err == nil || len(n.Stop) > 0 {
		return err
	}
	_, again := n.command(ctx, n.program("pg_ctl"), "stop", "--wait", "--silent", "-D", n.Directory, "-m", "immediate", "-t", fmt.Sprint(int(givenTime.Seconds())))
	if again == nil {
		return nil
	}
	if running, asked := n.running(ctx); asked == nil && !running {
		return nil
	}
	return errors.Join(err, again)
}

// control is what pg_controldata says of a node's directory.
func (n *Node) control(ctx context.Context) (map[string]string, error) {
	out, err := n.look(ctx, "env", "LC_ALL=C", n.program("pg_controldata"), "-D", n.Directory)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for line := range strings.Lines(out) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			values[name] = strings.TrimSpace(value)
		}
	}
	return values, nil
}

// Names of values of pg_controldata.
const (
	controlState      = "Database cluster state"
	controlCheckpoint = "Latest checkpoint location"
	controlSystem     = "Database system identifier"
)

// Values of controlState.
const (
	shutDown          = "shut down"
	shutDownAsStandby = "shut down in recovery"
)

// running reports whether a node's directory has a server. pg_ctl asks its pid file and the process.
func (n *Node) running(ctx context.Context) (bool, error) {
	_, err := n.look(ctx, n.program("pg_ctl"), "status", "-D", n.Directory)
	var exit *exec.ExitError
	if errors.As(err, &exit) && (exit.ExitCode() == notRunning || exit.ExitCode() == noDirectory) {
		return false, nil
	}
	return err == nil, err
}

// Exit codes of pg_ctl status: a directory without a server, and something that is no data directory.
const (
	notRunning  = 3
	noDirectory = 4
)

// mustNotRun fails when a node's directory has a server.
func (n *Node) mustNotRun(ctx context.Context) error {
	running, err := n.running(ctx)
	if err == nil && running {
		err = fmt.Errorf("a server runs in %s", n.Directory)
	}
	return err
}

// exists reports whether a file is on a node's machine. An unreachable machine is an error.
func (n *Node) exists(ctx context.Context, file string) (bool, error) {
	out, err := n.look(ctx, "sh", "-c", `if [ -e "$1" ]; then echo yes; else echo no; fi`, "sh", file)
	return strings.TrimSpace(out) == "yes", err
}

// signalFile makes a server a standby, whenever it is started.
func (n *Node) signalFile() string { return path.Join(n.Directory, "standby.signal") }

// errMark says that a server is marked as a standby, and not by this roll-out.
var errMark = errors.New("standby.signal")

// errAnotherServer says that a node's url and directory are those of two servers.
var errAnotherServer = errors.New("run leads to another machine than url")

func anotherServer(n *Node) error {
	return fmt.Errorf("node %s: the server at its url is not the one in %s there: %w", n.Name, n.Directory, errAnotherServer)
}

// markStandby has the node start as a standby, and as nothing else, from now on. It is on the disk when this returns, or nothing is: a full disk leaves no
// empty file behind. PostgreSQL does not read the mark that is in the file. ours is what those of this roll-out begin with. process is that of the server
// that is meant, which may be one on another machine; "": none runs.
func (n *Node) markStandby(ctx context.Context, mark, ours, process string) error {
	script := `if [ -n "$6" ] && [ "$(head -n 3 "$3/postmaster.pid")" != "$6" ]; then echo another; exit; fi
		if [ -e "$1" ]; then case $(cat "$1") in "$4"*) ;; "$5"*) echo other; exit;; esac; fi
		printf %s "$2" > "$1.new" && sync "$1.new" && mv "$1.new" "$1" && sync "$3" && exit; rm -f "$1.new"; exit 1`
	out, err := n.look(ctx, "sh", "-c", script, "sh", n.signalFile(), mark, n.Directory, ours, marks, process)
	if err == nil && strings.TrimSpace(out) == "other" {
		err = fmt.Errorf("%w: %s was put there by another roll-out: go on with that one; if it is gone, remove the file", errMark, n.signalFile())
	}
	if err == nil && strings.TrimSpace(out) == "another" {
		err = anotherServer(n)
	}
	return err
}

// unmarkStandby takes that back, if the mark is this one or there is none.
func (n *Node) unmarkStandby(ctx context.Context, mark string) error {
	script := `if [ ! -e "$1" ]; then echo none; elif [ "$(cat "$1")" = "$2" ]; then rm -f "$1" && sync "$3" && echo done; else echo other; fi`
	out, err := n.look(ctx, "sh", "-c", script, "sh", n.signalFile(), mark, n.Directory)
	if err == nil && strings.TrimSpace(out) == "other" {
		err = fmt.Errorf("%w: %s was not put there by this roll-out; if nobody needs it, remove it and run again", errMark, n.signalFile())
	}
	return err
}

// markedStandby reports whether the mark is there.
func (n *Node) markedStandby(ctx context.Context, mark string) (bool, error) {
	out, err := n.look(ctx, "sh", "-c", `if [ -e "$1" ] && [ "$(cat "$1")" = "$2" ]; then echo yes; else echo no; fi`, "sh", n.signalFile(), mark)
	return strings.TrimSpace(out) == "yes", err
}
