package rollout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// ErrCommand is wrapped by the error of a failed command.
var ErrCommand = errors.New("the command failed")

// outputShown limits how much of a command's output an error shows, in bytes.
const outputShown = 2 << 10

// command runs a program on a node's machine, and returns its standard output.
func (n *Node) command(ctx context.Context, name string, args ...string) (string, error) {
	return execute(ctx, nil, remoteCommand(n.Run, append([]string{name}, args...)...))
}

// answerTime limits a quick command or query: if it takes longer the network is down.
const answerTime = 30 * time.Second

// quickCommand runs a quick command.
func (n *Node) quickCommand(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, fmt.Errorf("node %s: no answer within %v", n.Name, answerTime))
	defer cancel()
	return n.command(ctx, name, args...)
}

// replaceFile replaces the content of a file on a node's machine, and keeps its owner and mode. Readers see
// the old content or the new one. The content is passed on standard input, because others on the machine can
// see a command's arguments.
func (n *Node) replaceFile(ctx context.Context, name string, content []byte) error {
	script := `umask 077 && cat > "$1.new" && if [ -e "$1" ]; then chmod --reference="$1" "$1.new"; chown --reference="$1" "$1.new" || true; fi &&
		sync "$1.new" && mv "$1.new" "$1" && sync "$(dirname "$1")"`
	_, err := executeWith(ctx, content, nil, remoteCommand(n.Run, "sh", "-c", script, "sh", name))
	return err
}

// program returns the path of a PostgreSQL program.
func (n *Node) program(name string) string {
	if n.Bin == "" {
		return name
	}
	return path.Join(n.Bin, name)
}

// killTime limits how long a command may take to end after SIGTERM.
const killTime = 10 * time.Second

// execute runs a command, and ends it, with its process group, when ctx ends.
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
		err = nil // it succeeded, and left a server running that has inherited its output
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

// start starts the server of a node and waits until it accepts connections.
func (n *Node) start(ctx context.Context) error {
	if len(n.Start) > 0 {
		_, err := n.command(ctx, n.Start[0], n.Start[1:]...)
		return err
	}
	_, err := n.command(ctx, n.program("pg_ctl"), "start", "--wait", "--silent", "-D", n.Directory, "-l", path.Join(n.Directory, "startup.log"))
	return err
}

// stop shuts the server of a node down cleanly.
func (n *Node) stop(ctx context.Context, patience time.Duration) error {
	if len(n.Stop) > 0 {
		_, err := n.command(ctx, n.Stop[0], n.Stop[1:]...)
		return err
	}
	_, err := n.command(ctx, n.program("pg_ctl"), "stop", "--wait", "--silent", "-D", n.Directory, "-m", "fast", "-t", fmt.Sprint(int(patience.Seconds())))
	return err
}

// stopAnyhow shuts the server down, if necessary without a checkpoint: then it replays its WAL when it is
// started again.
func (n *Node) stopAnyhow(ctx context.Context, patience time.Duration) error {
	err := n.stop(ctx, patience)
	if err == nil || len(n.Stop) > 0 {
		return err
	}
	_, immediate := n.command(ctx, n.program("pg_ctl"), "stop", "--wait", "--silent", "-D", n.Directory, "-m", "immediate", "-t", fmt.Sprint(int(givenTime.Seconds())))
	if immediate == nil {
		return nil
	}
	if running, asked := n.running(ctx); asked == nil && !running {
		return nil
	}
	return errors.Join(err, immediate)
}

// control returns the output of pg_controldata for a node's directory.
func (n *Node) control(ctx context.Context) (map[string]string, error) {
	out, err := n.quickCommand(ctx, "env", "LC_ALL=C", n.program("pg_controldata"), "-D", n.Directory)
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

// Names of values in pg_controldata.
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

// running reports whether a server runs in a node's directory. pg_ctl checks its pid file and the process.
func (n *Node) running(ctx context.Context) (bool, error) {
	_, err := n.quickCommand(ctx, n.program("pg_ctl"), "status", "-D", n.Directory)
	var exit *exec.ExitError
	if errors.As(err, &exit) && (exit.ExitCode() == notRunning || exit.ExitCode() == noDirectory) {
		return false, nil
	}
	return err == nil, err
}

// Exit codes of pg_ctl status: no server runs in the directory; it is not a data directory.
const (
	notRunning  = 3
	noDirectory = 4
)

// mustNotRun returns an error if a server runs in a node's directory.
func (n *Node) mustNotRun(ctx context.Context) error {
	running, err := n.running(ctx)
	if err == nil && running {
		err = fmt.Errorf("a server runs in %s", n.Directory)
	}
	return err
}

// exists reports whether a file exists on a node's machine. An unreachable machine is an error.
func (n *Node) exists(ctx context.Context, file string) (bool, error) {
	out, err := n.quickCommand(ctx, "sh", "-c", `if [ -e "$1" ]; then echo yes; else echo no; fi`, "sh", file)
	return strings.TrimSpace(out) == "yes", err
}

// signalFile returns the path of the file that makes the server start as a standby.
func (n *Node) signalFile() string { return path.Join(n.Directory, "standby.signal") }

// errMark means that a server is marked as a standby, but not by this roll-out.
var errMark = errors.New("standby.signal")

// errAnotherServer means that a node's url and directory belong to two servers.
var errAnotherServer = errors.New("run: and url: lead to different machines")

func anotherServer(n *Node) error {
	return fmt.Errorf("node %s: the server at its url is not the one in %s: %w", n.Name, n.Directory, errAnotherServer)
}

// markStandby makes the node start as a standby from now on. When it returns, the file is on the disk, or
// there is none: a full disk leaves no empty file. PostgreSQL ignores the mark in the file. ours is the prefix of
// this roll-out's marks. process identifies the expected server process; if the directory's server is another one,
// markStandby returns an error. "" skips that check: no server runs.
func (n *Node) markStandby(ctx context.Context, mark, ours, process string) error {
	script := `if [ -n "$6" ] && [ "$(head -n 3 "$3/postmaster.pid")" != "$6" ]; then echo another; exit; fi
		if [ -e "$1" ]; then case $(cat "$1") in "$4"*) ;; "$5"*) echo other; exit;; esac; fi
		printf %s "$2" > "$1.new" && sync "$1.new" && mv "$1.new" "$1" && sync "$3" && exit; rm -f "$1.new"; exit 1`
	out, err := n.quickCommand(ctx, "sh", "-c", script, "sh", n.signalFile(), mark, n.Directory, ours, markPrefix, process)
	if err == nil && strings.TrimSpace(out) == "other" {
		err = fmt.Errorf("%w: %s was created by another roll-out: continue that one; if it is gone, remove the file", errMark, n.signalFile())
	}
	if err == nil && strings.TrimSpace(out) == "another" {
		err = anotherServer(n)
	}
	return err
}

// unmarkStandby removes the signal file if it contains this mark. It succeeds if there is no file.
func (n *Node) unmarkStandby(ctx context.Context, mark string) error {
	script := `if [ ! -e "$1" ]; then echo none; elif [ "$(cat "$1")" = "$2" ]; then rm -f "$1" && sync "$3" && echo done; else echo other; fi`
	out, err := n.quickCommand(ctx, "sh", "-c", script, "sh", n.signalFile(), mark, n.Directory)
	if err == nil && strings.TrimSpace(out) == "other" {
		err = fmt.Errorf("%w: %s was not created by this roll-out; if it is not needed, remove it and run again", errMark, n.signalFile())
	}
	return err
}

// markedStandby reports whether the signal file contains this mark.
func (n *Node) markedStandby(ctx context.Context, mark string) (bool, error) {
	out, err := n.quickCommand(ctx, "sh", "-c", `if [ -e "$1" ] && [ "$(cat "$1")" = "$2" ]; then echo yes; else echo no; fi`, "sh", n.signalFile(), mark)
	return strings.TrimSpace(out) == "yes", err
}

// remoteCommand returns the command line that runs a command on a machine, with the prefix run. ssh joins its arguments
// with spaces for a remote shell, so they are quoted for ssh; sudo, setpriv, `kubectl exec --` and others
// pass them on unchanged.
func remoteCommand(run []string, command ...string) []string {
	run = run[:len(run):len(run)]
	if len(run) > 0 && path.Base(run[0]) == "ssh" {
		return append(run, shellQuote(command))
	}
	return append(run, command...)
}

// shellQuote quotes a command for a POSIX shell.
func shellQuote(words []string) string {
	all := make([]string, len(words))
	for i, w := range words {
		if all[i] = w; !safeWord.MatchString(w) {
			all[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(all, " ")
}

// safeWord matches words without a special meaning in shells.
var safeWord = regexp.MustCompile(`^[A-Za-z0-9_%+:,./@-]+$`)
