package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path"
	"slices"
	"strings"
	"time"
)

// preparation makes a new node and checks whether it may replace the old one.
type preparation struct{ *task }

// marker returns the path of a file beside a directory of a new node. The file means that an unfinished roll-out has
// put the directory's content there, so that the content may be removed. It begins with the roll-out's ID.
func marker(directory string) string { return strings.TrimRight(directory, "/") + ".cinch-rollout" }

func (n *Node) marker() string { return marker(n.Directory) }

// provision makes the directories of a new node.
func (p preparation) provision(ctx context.Context) error {
	if err := p.cell.hook(ctx, p.cell.Hooks.Provision, p.newNode); err != nil {
		return err
	}
	for _, directory := range p.newNode.directories() {
		ours, err := p.ownsDirectory(ctx, directory)
		if err == nil && !ours {
			script := `mkdir -p -m 700 "$1" && if [ -n "$(ls -A "$1")" ]; then echo "$1 is not empty"; exit 1; fi && printf %s "$3" > "$2"`
			_, err = p.newNode.command(ctx, "sh", "-c", script, "sh", directory, marker(directory), p.markerText())
		}
		if err != nil {
			return err
		}
	}
	p.progress.Made = p.newNode.where()
	return nil
}

// markerText returns the content of this roll-out's markers.
func (p preparation) markerText() string { return p.id + " " + whoami() + " " + p.cell.State }

// ownsDirectory reports whether a directory was made by this roll-out. It returns an error if another roll-out of the
// same cell, begun elsewhere, has made it.
func (p preparation) ownsDirectory(ctx context.Context, directory string) (bool, error) {
	out, err := p.newNode.quickCommand(ctx, "sh", "-c", `if [ -e "$1" ]; then echo "there $(cat "$1")"; fi`, "sh", marker(directory))
	says := strings.Fields(out)
	if err != nil || len(says) == 0 {
		return false, err
	}
	if id := append(says, "")[1]; id != p.id {
		return false, fmt.Errorf("%s belongs to another roll-out (%s): continue that one; if it is gone, empty the directory and remove %s", directory, strings.Join(says[1:], " "), marker(directory))
	}
	return true, nil
}

// emptyDirectories removes what an earlier try left in the new directories.
func (p preparation) emptyDirectories(ctx context.Context) error {
	newNode := p.newNode
	for _, directory := range newNode.directories() {
		ours, err := p.ownsDirectory(ctx, directory)
		if err != nil {
			return err
		}
		if !ours {
			return fmt.Errorf("%s has no %s beside it: it was not made by this roll-out", directory, marker(directory))
		}
		if err := errors.Join(newNode.mustNotRun(ctx), p.notPromoted(ctx)); err != nil {
			return err
		}
		if err := newNode.alone(ctx, "find", "-H", directory, "-mindepth", "1", "-delete"); err != nil {
			return err
		}
	}
	return nil
}

// errAtWork means that the base backup of an earlier try is still running: a tool that is killed leaves it
// behind.
var errAtWork = errors.New("the base backup of an earlier try still writes there: wait until it ends, or end pg_basebackup on that machine, and run again")

// alone runs a command that writes into a new node's directory while no other such command does, from this
// process or an earlier one. The command itself holds the lock until it ends. atWork is the exit code if
// another command holds the lock.
func (n *Node) alone(ctx context.Context, name string, args ...string) error {
	const script = `lock=$1; shift; command -v flock >/dev/null || exec "$@"; exec flock -n -E 75 "$lock" "$@"`
	const atWork = 75
	_, err := n.command(ctx, "sh", append([]string{"-c", script, "sh", n.marker(), name}, args...)...)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == atWork {
		return fmt.Errorf("%s: %w", n.Directory, errAtWork)
	}
	return err
}

// backup fills the directories from the primary.
func (p preparation) backup(ctx context.Context) error {
	newNode, from := p.newNode, p.primary
	if err := p.emptyDirectories(ctx); err != nil {
		return err
	}
	// The slot of an earlier try keeps more WAL than is needed, or has lost some.
	if err := from.dropSlot(ctx, newNode.slot()); err != nil {
		return err
	}
	if err := from.makeSlot(ctx, newNode); err != nil {
		return err
	}
	began := time.Now()
	if err := p.copy(ctx); err != nil {
		dropping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*answerTime)
		defer cancel()
		// The slot would keep WAL until the primary's disk is full.
		return errors.Join(err, from.dropSlot(dropping, newNode.slot()))
	}
	p.progress.BackupTook = time.Since(began)
	p.compareSize(ctx)
	return p.cell.configure(ctx, newNode, from)
}

func (p preparation) copy(ctx context.Context) error {
	if p.cell.Hooks.Restore != nil {
		return p.cell.hook(ctx, p.cell.Hooks.Restore, p.newNode)
	}
	return p.newNode.alone(ctx, p.newNode.program("pg_basebackup"), p.cell.backupArguments(p.newNode, p.primary)...)
}

func (c *Cell) backupArguments(newNode, from *Node) []string {
	args := []string{
		"--pgdata", newNode.Directory, "--wal-method=stream", "--slot", newNode.slot(), "--checkpoint=fast", "--no-password",
		"--dbname", from.conninfo(newNode, c.Replication),
	}
	for _, old := range slices.Sorted(maps.Keys(newNode.Tablespaces)) {
		args = append(args, "--tablespace-mapping="+mapped(old)+"="+mapped(newNode.Tablespaces[old]))
	}
	return args
}

// mapped escapes a directory for --tablespace-mapping.
func mapped(directory string) string { return strings.ReplaceAll(directory, "=", `\=`) }

// configure writes the settings with which a new node follows the primary, with its own port and options.
func (c *Cell) configure(ctx context.Context, newNode, from *Node) error {
	settings := map[string]string{}
	for name, v := range newNode.Options {
		settings[name] = v
	}
	settings["primary_conninfo"] = from.conninfo(newNode, c.Replication)
	settings["primary_slot_name"] = newNode.slot()
	var conf strings.Builder
	conf.WriteString("# cinch rollout\n")
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&conf, "%s = %s\n", name, confLiteral(settings[name]))
	}
	script := `printf %s "$1" >> "$2/postgresql.auto.conf" && touch "$2/standby.signal" && sync "$2/postgresql.auto.conf" "$2/standby.signal" "$2"`
	_, err := newNode.command(ctx, "sh", "-c", script, "sh", conf.String(), newNode.Directory)
	return err
}

// start starts a new node as a standby.
func (p preparation) start(ctx context.Context) error {
	newNode := p.newNode
	running, err := newNode.running(ctx)
	if err != nil {
		return err
	}
	if !running {
		signal, err := newNode.exists(ctx, newNode.signalFile())
		if err != nil || !signal {
			return errors.Join(err, fmt.Errorf("%s is not there: the node would become a primary", newNode.signalFile()))
		}
		// The operator may have corrected the options since the copy.
		if err := p.cell.configure(ctx, newNode, p.primary); err != nil {
			return err
		}
		if err := newNode.start(ctx); err != nil {
			return fmt.Errorf("%w (see %s)", err, path.Join(newNode.Directory, "startup.log"))
		}
	}
	return p.isStandby(ctx)
}

// isStandby returns an error unless the new node is a standby of this cell: a hook may have restored another
// cell's backup.
func (p preparation) isStandby(ctx context.Context) error {
	newNode := p.newNode
	standby, err := newNode.inRecovery(ctx)
	if err == nil && !standby {
		err = fmt.Errorf("%w: %s is a primary", errRole, newNode.Name)
	}
	if err != nil {
		return err
	}
	is, err := systemOf(ctx, newNode)
	if err != nil {
		return err
	}
	must, err := systemOf(ctx, p.primary)
	if err == nil && is != must {
		err = fmt.Errorf("%w: the data restored to %s belongs to another cell (system identifier %s; %s has %s)", ErrGate, newNode.Name, is, p.primary.Name, must)
	}
	return errors.Join(err, newNode.checkServer(ctx))
}

// notPromoted returns an error if the new node was made a primary by other means: then the roll-out must
// neither stop nor empty it. A base backup has a backup_label until it is started.
func (p preparation) notPromoted(ctx context.Context) error {
	newNode := p.newNode
	const script = `if [ -e "$1/global/pg_control" ] && [ ! -e "$1/standby.signal" ] && [ ! -e "$1/backup_label" ]; then echo yes; else echo no; fi`
	out, err := newNode.quickCommand(ctx, "sh", "-c", script, "sh", newNode.Directory)
	if err == nil && strings.TrimSpace(out) == "yes" {
		err = fmt.Errorf("%w: %s is a primary, and was not changed. If it is not needed, stop it and empty %s; if it is the primary now, describe the cell again in another file",
			errRole, newNode.Name, newNode.Directory)
	}
	return err
}

// remove stops a new node that will not be used, and drops its slot. Its directory stays. Before the roll-out
// has made the directory, its content is not the roll-out's and is left alone.
func (p preparation) remove(ctx context.Context) error {
	newNode := p.newNode
	if p.progress.Made == "" {
		return nil
	}
	err := p.notPromoted(ctx)
	if errors.Is(err, errRole) {
		return err
	}
	running := false
	if err == nil {
		running, err = newNode.running(ctx)
	}
	if err == nil && running {
		err = newNode.stop(ctx, p.cell.shutdownTime())
	}
	if err != nil {
		p.log("%s could not be stopped, so its slot remains, and keeps WAL at %s: %v", newNode.Name, p.primary.Name, err)
		return nil
	}
	return errors.Join(p.primary.dropSlot(ctx, newNode.slot()), p.reclaim(ctx))
}

// reclaim writes the markers again, so that the next try may empty the directories.
func (p preparation) reclaim(ctx context.Context) error {
	if p.progress.Made == "" {
		return nil
	}
	for _, directory := range p.newNode.directories() {
		if _, err := p.newNode.quickCommand(ctx, "sh", "-c", `if [ -e "$1" ]; then printf %s "$3" > "$2"; fi`, "sh", directory, marker(directory), p.markerText()); err != nil {
			return err
		}
	}
	return nil
}
