package rollout

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// retirement handles the node that was replaced.
type retirement struct {
	*task
	yes, destroyOld bool
}

// join runs the join hook: the new standby may get reads.
func (e retirement) join(ctx context.Context) error {
	return e.cell.hook(ctx, e.cell.Hooks.Join, e.newNode)
}

// retire stops a standby that was replaced.
func (e retirement) retire(ctx context.Context) error {
	running, err := e.oldNode.running(ctx)
	if err != nil {
		return err
	}
	if running {
		if err := e.replaceable(ctx); err != nil {
			return err
		}
		if err := e.remember(ctx); err != nil {
			return err
		}
		if err := e.oldNode.stop(ctx, e.cell.shutdownTime()); err != nil {
			return err
		}
	}
	e.progress.Replaced = true
	return nil
}

// replaceable returns an error if the old standby is still needed, or is not the server that would be
// stopped: days may have passed since the new one's gates.
func (e retirement) replaceable(ctx context.Context) error {
	if err := e.oldNode.checkServer(ctx); err != nil {
		return err
	}
	streams, err := e.primary.streamsTo(ctx, e.newNode)
	if err == nil && !streams {
		err = fmt.Errorf("%w: %s does not follow %s, so %s is not stopped", ErrGate, e.newNode.Name, e.primary.Name, e.oldNode.Name)
	}
	return err
}

// remember saves how a standby follows, before it is stopped. It returns an error if commits wait for the standby and
// not for its replacement.
func (e retirement) remember(ctx context.Context) error {
	standby, err := e.oldNode.inRecovery(ctx)
	if err == nil && !standby {
		err = fmt.Errorf("%w: %s is a primary", errRole, e.oldNode.Name)
	}
	if err != nil {
		return err
	}
	var name string
	err = e.oldNode.ask(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT coalesce(max(slot_name), ''), count(*) > 0, `+receiverName+` FROM pg_stat_wal_receiver WHERE status = 'streaming'`).
			Scan(&e.progress.OldSlot, &e.progress.OldStream, &name)
	})
	if err != nil {
		return err
	}
	waited, err := value[bool](ctx, e.primary, `SELECT coalesce(bool_or(application_name = $1 AND sync_state IN ('sync', 'quorum')), false) AND
		NOT coalesce(bool_or(application_name = $2 AND sync_state <> 'async'), false) FROM pg_stat_replication`, name, e.newNode.slot())
	if err == nil && waited {
		err = fmt.Errorf("%w: commits wait for %s (%s), and would hang without it: add %s to synchronous_standby_names of %s first", ErrGate, e.oldNode.Name, name, e.newNode.slot(), e.primary.Name)
	}
	return errors.Join(err, e.save())
}

// unretire starts a standby again, and waits until it follows as before.
func (e retirement) unretire(ctx context.Context) error {
	running, err := e.oldNode.running(ctx)
	if err == nil && !running {
		err = e.oldNode.start(ctx)
	}
	if err == nil && e.progress.OldStream {
		err = e.follows(ctx)
	}
	if err == nil {
		e.progress.Replaced = false
	}
	return err
}

// follows waits until the old standby streams again. It gives up after gates.catch_up, as the WAL it needs may be gone.
func (e retirement) follows(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.cell.catchUpTime())
	defer cancel()
	for {
		streams, err := e.oldNode.receives(ctx)
		if err != nil || streams {
			return err
		}
		if pause(ctx) != nil {
			return fmt.Errorf("%s runs again but does not follow %s, so %s is kept: look into its log; abort tries again, run continues", e.oldNode.Name, e.primary.Name, e.newNode.Name)
		}
	}
}

// keep returns ErrUnconfirmed until an operator confirms that the old node is no longer needed.
func (e retirement) keep(ctx context.Context) error {
	p := e.progress
	if now, err := e.newNode.diskUse(ctx, e.newNode.directories()); err == nil && !p.Confirmed {
		p.Now = now
		e.log("%s took %s, %s takes %s", e.oldNode.Name, p.Old, e.newNode.Name, now)
	}
	if e.yes && !p.Confirmed {
		p.Confirmed = true
		if err := e.record("confirmed by --yes"); err != nil {
			return err
		}
	}
	if !p.Confirmed {
		return fmt.Errorf("%w: %s has replaced %s, which is stopped and kept", ErrUnconfirmed, e.newNode.Name, e.oldNode.Name)
	}
	return nil
}

// destroy drops the slot of a node whose replacement was confirmed and, if requested, removes its data.
func (e retirement) destroy(ctx context.Context) error {
	p := e.progress
	if p.OldSlot != "" { // it would keep WAL forever
		switch err := e.primary.dropSlot(ctx, p.OldSlot); {
		case errors.Is(err, errSlotUsed):
			e.log("%v", err)
		case err != nil:
			return err
		}
	}
	if !e.destroyOld || !p.Confirmed || p.Destroyed {
		e.log("the data of %s remains in %s", e.oldNode.Name, e.oldNode.Directory)
		return nil
	}
	if err := errors.Join(e.oldNode.mustNotRun(ctx), e.inPlace(ctx)); err != nil {
		return fmt.Errorf("the data of %s remains in %s: %w", e.oldNode.Name, e.oldNode.Directory, err)
	}
	err := e.erase(ctx)
	p.Destroyed = err == nil
	return err
}

// inPlace returns an error unless the new node is in service now: the old node's data may be the last copy.
func (e retirement) inPlace(ctx context.Context) error {
	standby, err := e.newNode.inRecovery(ctx)
	switch {
	case err != nil:
		return err
	case !standby && e.newNode.Name == e.primary.Name:
		return nil
	case !standby:
		return fmt.Errorf("%w: %s is a primary", errRole, e.newNode.Name)
	case e.newNode.Name == e.primary.Name:
		return fmt.Errorf("%w: %s is a standby", errRole, e.newNode.Name)
	}
	receives, err := e.newNode.receives(ctx)
	if err == nil && !receives {
		err = fmt.Errorf("%s does not follow %s", e.newNode.Name, e.primary.Name)
	}
	return err
}

// ofCell returns an error if the directory does not belong to this cell. A half erased directory does not show
// which cell it belongs to, so the state records the erasure before it begins.
func (e retirement) ofCell(ctx context.Context) error {
	if e.progress.Erased == e.oldNode.where() {
		return nil
	}
	control, err := e.oldNode.control(ctx)
	if err != nil {
		return err
	}
	system, err := systemOf(ctx, e.newNode)
	if err == nil && control[controlSystem] != system {
		err = fmt.Errorf("%s belongs to another cell, and was not erased", e.oldNode.Directory)
	}
	if err != nil {
		return err
	}
	e.progress.Erased = e.oldNode.where()
	return e.save()
}

// erase removes the old node's data. In a tablespace's directory it removes only the subdirectory of the
// server's version; other servers may have data beside it.
func (e retirement) erase(ctx context.Context) error {
	if e.cell.Hooks.Destroy != nil {
		return e.cell.hook(ctx, e.cell.Hooks.Destroy, e.newNode)
	}
	if err := e.ofCell(ctx); err != nil {
		return err
	}
	const script = `inner=$(find -H "$1" -mindepth 3 -path "*/global/pg_control" | head -n 1)
	if [ -n "$inner" ]; then echo "it contains another server's directory: $inner"; exit 1; fi
	if [ -e "$1/PG_VERSION" ]; then
		version=$(cat "$1/PG_VERSION"); for space in "$1"/pg_tblspc/*; do if [ -h "$space" ]; then rm -rf "$space"/PG_"$version"_*; fi; done
	fi; find -H "$1" -mindepth 1 -delete`
	_, err := e.oldNode.command(ctx, "sh", "-c", script, "sh", e.oldNode.Directory)
	return err
}
