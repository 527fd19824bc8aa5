package rollout

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The fence makes sure that the old primary takes no writes, and that the new node has all that it wrote.
// docs/ROLLOUT.md has the argument.

// fence shuts the old primary down for good, and waits until the new node has all that it wrote.
func (s switchover) fence(ctx context.Context) error {
	if err := s.reachAndHold(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cell.shutdownTime())
	defer cancel()
	written, process, err := s.connected(ctx)
	if err != nil {
		return err
	}
	if err := s.shutDown(ctx, process); err != nil {
		return err
	}
	last, err := s.end(ctx)
	if err != nil {
		return err
	}
	if last < written {
		return fmt.Errorf("the WAL in %s ends at %s, but the server at the URL of %s has written more: it is not the directory of that server", s.oldNode.Directory, s.progress.LastWAL, s.oldNode.Name)
	}
	if err := waitReplayed(ctx, s.newNode, last); err != nil {
		return fmt.Errorf("%s does not have all WAL that %s wrote: %w", s.newNode.Name, s.oldNode.Name, err)
	}
	if err := s.silent(ctx); err != nil {
		return err
	}
	return s.cell.hook(ctx, s.cell.Hooks.Fence, s.newNode)
}

// emitMessage writes a message to the WAL, and returns its position. The commit flushes the WAL.
const emitMessage = "SELECT pg_wal_lsn_diff(pg_logical_emit_message(true, 'cinch rollout', ''), '0/0')::bigint"

// connected returns an error if the old primary runs and its WAL does not reach the new node: its last records
// would not reach it either. It returns a WAL position that the old primary has written, and its server process.
// If it does not run, they are 0 and "".
func (s switchover) connected(ctx context.Context) (written int64, process string, err error) {
	running, err := s.oldNode.running(ctx)
	if err != nil || !running {
		return 0, "", err
	}
	streams, err := s.oldNode.streamsTo(ctx, s.newNode)
	if err != nil {
		return 0, "", err
	}
	follows := fmt.Errorf("%s no longer follows %s", s.newNode.Name, s.oldNode.Name)
	if !streams {
		return 0, "", follows
	}
	line, err := value[int64](ctx, s.oldNode, "SELECT timeline_id FROM pg_control_checkpoint()")
	if err != nil {
		return 0, "", err
	}
	same, err := value[bool](ctx, s.newNode, "SELECT EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming' AND received_tli = $1)", line)
	if err != nil {
		return 0, "", err
	}
	if !same {
		return 0, "", fmt.Errorf("%w: it is not on its timeline %d", follows, line)
	}
	// Only a message shows whether the network between the two still works.
	ctx, cancel := context.WithTimeout(ctx, s.cell.holdTime())
	defer cancel()
	if written, err = value[int64](ctx, s.oldNode, emitMessage); err == nil {
		err = waitReplayed(ctx, s.newNode, written-1)
	}
	if err != nil {
		return 0, "", fmt.Errorf("%w: %w", follows, err)
	}
	process, err = processOf(ctx, s.oldNode)
	return written, process, err
}

// markPrefix begins all marks; the roll-out's ID follows.
const markPrefix = "cinch-rollout-"

// shutDown shuts a primary down so that it starts as a standby. Each call makes a new mark, which is in the state file
// before it is in the signal file. So if a command to remove an earlier mark arrives late, over a slow network, it does
// not remove this one. process identifies the server process to shut down; "": none runs.
func (s switchover) shutDown(ctx context.Context, process string) error {
	was, ours := s.progress.Mark, markPrefix+s.id
	s.progress.Mark = ours + "-" + rand.Text()
	if err := s.save(); err != nil {
		s.progress.Mark = was
		return err
	}
	if err := s.oldNode.markStandby(ctx, s.progress.Mark, ours, process); err != nil {
		// The file is another server's, not this roll-out's to remove.
		if errors.Is(err, errAnotherServer) {
			s.progress.Mark = was
		}
		return err
	}
	running, err := s.oldNode.running(ctx)
	if err == nil && running {
		err = s.oldNode.stop(ctx, s.cell.shutdownTime())
	}
	return err
}

// end returns the position of the last WAL record of a primary that was shut down. It is a checkpoint.
func (s switchover) end(ctx context.Context) (last int64, err error) {
	control, err := s.oldNode.control(ctx)
	if err != nil {
		return 0, err
	}
	if state := control[controlState]; state != shutDown {
		return 0, fmt.Errorf("%s was not shut down cleanly as a primary: pg_controldata says %q", s.oldNode.Name, state)
	}
	s.progress.LastWAL = control[controlCheckpoint]
	return parseLSN(s.progress.LastWAL)
}

// silent returns an error if the URL of the old primary leads to a primary of this cell, although the server
// in its directory is down.
func (s switchover) silent(ctx context.Context) error {
	control, err := s.oldNode.control(ctx)
	if err != nil {
		return nil // the callers check for an unreachable machine
	}
	takes, err := value[bool](ctx, s.oldNode, "SELECT NOT pg_is_in_recovery() AND system_identifier::text = $1 FROM pg_control_system()", control[controlSystem])
	if err == nil && takes {
		return fmt.Errorf("a primary answers at the URL of %s, although the server in %s is down", s.oldNode.Name, s.oldNode.Directory)
	}
	return nil
}

// staysDown returns an error unless the old primary is as the fence left it: down, or started as a standby, with
// nothing written since. A roll-out that was killed between fence and promote does not know what has happened since. If
// the machine does not answer, the fence hook decides; without one that is an error.
func (s switchover) staysDown(ctx context.Context) error {
	if err := s.silent(ctx); err != nil {
		return fmt.Errorf("%w: abort", err)
	}
	marked, err := s.oldNode.markedStandby(ctx, s.progress.Mark)
	if err != nil && len(s.cell.Hooks.Fence) > 0 {
		s.log("%s can't be reached, so the fence hook decides: %v", s.oldNode.Name, err)
		return s.cell.hook(ctx, s.cell.Hooks.Fence, s.newNode)
	}
	if err == nil && !marked {
		err = fmt.Errorf("%s would start as a primary, because %s was removed or changed: abort", s.oldNode.Name, s.oldNode.signalFile())
	}
	if err != nil {
		return err
	}
	control, err := s.oldNode.control(ctx)
	if err == nil && control[controlCheckpoint] != s.progress.LastWAL {
		err = fmt.Errorf("%s has run since it was fenced: its last checkpoint is at %s and was at %s; abort", s.oldNode.Name, control[controlCheckpoint], s.progress.LastWAL)
	}
	return err
}

// parseLSN parses a position in the WAL, such as 16/B374D848.
func parseLSN(text string) (int64, error) {
	high, low, ok := strings.Cut(text, "/")
	h, err := strconv.ParseUint(high, 16, 31)
	l, lowErr := strconv.ParseUint(low, 16, 32)
	if !ok || err != nil || lowErr != nil {
		return 0, fmt.Errorf("%q is not a WAL position", text)
	}
	return int64(h<<32 | l), nil
}
