package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Restoring the old primary, before the promotion.

const (
	releaseTime = 30 * time.Second // limits releasing clients, in addition to the time for the rest
	givenTime   = 10 * time.Second // limits a clean shutdown while clients wait for the old primary
	restarts    = 5                // tries to start the old node, which a supervisor may start and stop meanwhile
)

// unwind makes the old node the primary again, and lets clients continue there. The new node has not been
// promoted.
func (s switchover) unwind(ctx context.Context) error {
	err := s.primaryAgain(ctx)
	if err != nil {
		err = fmt.Errorf("%s is not a primary again: %w", s.oldNode.Name, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	return errors.Join(err, s.clients.Release(ctx))
}

// primaryAgain makes the old node run as the primary. At any moment a supervisor may start it as the standby
// that it was marked as.
func (s switchover) primaryAgain(ctx context.Context) (err error) {
	for range restarts {
		var running, standby bool
		if running, err = s.oldNode.running(ctx); err != nil {
			return err
		}
		if running {
			if standby, err = s.oldNode.inRecovery(ctx); err == nil && !standby {
				return s.unmark(ctx)
			}
		}
		if err = s.startAgain(ctx, running); ctx.Err() != nil || errors.Is(err, ErrNoWayBack) || errors.Is(err, errMark) {
			return err
		}
	}
	return errors.Join(err, errors.New("another program, such as a supervisor, starts and stops it"))
}

// startAgain starts the old node as a primary. A server that runs there is shutting down, or is a standby. It is
// stopped first; everything that it has written is on its disk and is kept.
func (s switchover) startAgain(ctx context.Context, running bool) error {
	if standby, err := s.newNode.inRecovery(ctx); err == nil && !standby {
		return fmt.Errorf("%w: %s is a primary, but this roll-out has not promoted it", ErrNoWayBack, s.newNode.Name)
	}
	if running {
		if err := s.oldNode.stopAnyhow(ctx, min(givenTime, s.cell.shutdownTime())); err != nil {
			return err
		}
	}
	if err := s.unmark(ctx); err != nil {
		return err
	}
	return s.oldNode.start(ctx)
}

// unmark makes the old node start as a primary again.
func (s switchover) unmark(ctx context.Context) error {
	if s.progress.Mark == "" {
		return nil
	}
	if err := s.oldNode.unmarkStandby(ctx, s.progress.Mark); err != nil {
		return err
	}
	s.progress.Mark = ""
	return s.save()
}

// unpromote undoes a promotion that has not happened, and makes sure that it does not happen later.
func (s switchover) unpromote(ctx context.Context) error {
	if err := s.stopMade(ctx); err != nil {
		return fmt.Errorf("unknown whether %s has been promoted, and there must not be two primaries: %w", s.newNode.Name, err)
	}
	control, err := s.newNode.control(ctx)
	signal := false
	if err == nil {
		signal, err = s.newNode.exists(ctx, s.newNode.signalFile())
	}
	if err != nil {
		return fmt.Errorf("unknown whether %s has been promoted, and there must not be two primaries: %w", s.newNode.Name, err)
	}
	if control[controlState] != shutDownAsStandby || !signal {
		return errors.Join(s.noWayBack(), s.newNode.start(ctx))
	}
	return s.unwind(ctx)
}

// stopMade shuts the new node down. A crashed node does not show whether it was promoted. If it has its
// standby.signal it was not: it is started and shut down cleanly, so that its control file says so.
func (s switchover) stopMade(ctx context.Context) error {
	running, err := s.newNode.running(ctx)
	if err != nil {
		return err
	}
	if !running {
		signal, err := s.newNode.exists(ctx, s.newNode.signalFile())
		if err != nil || !signal {
			return err
		}
		if err := s.newNode.start(ctx); err != nil {
			return err
		}
	}
	return s.newNode.stop(ctx, s.cell.shutdownTime())
}
