package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/internal/switchover/postgres/control"
)

// switchover changes the primary.
type switchover struct {
	*task
	clients  Clients
	others   []*Node  // the other standbys of the cell
	oldSlots []string // of nodes that have been replaced
}

// hold makes new transactions wait, once the new node's lag is small. It first makes slots at the new node,
// so that WAL for the other standbys is kept from before the promotion.
func (s switchover) hold(ctx context.Context) error {
	if err := s.waitStreaming(ctx, s.oldNode, s.newNode); err != nil {
		return err
	}
	if err := s.othersFollow(ctx); err != nil {
		return err
	}
	// Otherwise clients would wait while the shutdown writes all dirty pages.
	if err := s.oldNode.exec(ctx, "CHECKPOINT"); err != nil {
		return err
	}
	if err := s.catchUp(ctx); err != nil {
		return err
	}
	if err := s.reach(ctx); err != nil {
		return err
	}
	for _, other := range s.others {
		if err := s.newNode.makeSlot(ctx, other); err != nil {
			return err
		}
	}
	s.progress.HeldAt = time.Now()
	if err := s.save(); err != nil {
		return err
	}
	return s.clients.Hold(ctx, s.cell.holdTime())
}

// reach returns an error unless clients could be moved to the new node.
func (s switchover) reach(ctx context.Context) error {
	lost, err := s.clients.Reach(ctx, s.newNode)
	if err == nil && lost != "" {
		s.log("sessions that would be ended, because they could not log in at %s: %s", s.newNode.Name, lost)
	}
	return asGate(err)
}

// asGate turns a refusal of the gateway into an ErrGate.
func asGate(err error) error {
	var no *control.Refusal
	if errors.As(err, &no) {
		err = fmt.Errorf("%w: %w", ErrGate, err)
	}
	return err
}

// reachAndHold makes clients wait. A resumed roll-out may find them released, so it tests the new node again
// first. The lease begins after that: it is only as long as the following steps may take.
func (s switchover) reachAndHold(ctx context.Context) error {
	if err := s.reach(ctx); err != nil {
		return err
	}
	return s.clients.Hold(ctx, s.cell.holdTime())
}

// othersFollow returns an error if another standby would not follow the new primary: after the promotion it
// would be too late.
func (s switchover) othersFollow(ctx context.Context) error {
	for _, other := range s.others {
		standby, err := other.inRecovery(ctx)
		if err == nil && !standby {
			err = fmt.Errorf("%w: %s is a primary", errRole, other.Name)
		}
		if err != nil {
			return fmt.Errorf("%w: all standbys must be able to follow the new primary: %w", ErrGate, err)
		}
	}
	return nil
}

// promoteTime limits a promotion.
const promoteTime = time.Minute

// promote makes the new node the primary. It asks the node, not the state, whether it is one already.
func (s switchover) promote(ctx context.Context) error {
	standby, err := s.newNode.inRecovery(ctx)
	if err != nil {
		return err
	}
	if standby {
		if err := s.staysDown(ctx); err != nil {
			return err
		}
		if err := s.promoteAtEnd(ctx); err != nil {
			return err
		}
		if standby, err = s.newNode.inRecovery(ctx); err != nil || standby {
			return errors.Join(err, fmt.Errorf("%s has not become a primary within %v", s.newNode.Name, promoteTime))
		}
	}
	s.progress.Replaced = true
	return nil
}

// lastRecordBytes is more than the size of a checkpoint, the last record of a server that was shut down.
const lastRecordBytes = 256

// promoteAtEnd promotes the new node if it has replayed exactly up to the old primary's last record. One
// statement checks and promotes, so that one that arrives late, from a process or a network that was
// suspended, does not promote a node that follows a primary again.
func (s switchover) promoteAtEnd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, promoteTime+answerTime)
	defer cancel()
	last, err := parseLSN(s.progress.LastWAL)
	if err == nil {
		// After a crash the node replays its WAL again.
		err = waitReplayed(ctx, s.newNode, last)
	}
	if err != nil {
		return err
	}
	return s.newNode.ask(ctx, func(c *pgx.Conn) error {
		var done bool
		err := c.QueryRow(ctx, `SELECT pg_promote(true, $1) FROM (SELECT pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0') - $2 AS beyond) AS stands
			WHERE beyond > 0 AND beyond <= $3`, int(promoteTime.Seconds()), last, lastRecordBytes).Scan(&done)
		if errors.Is(err, pgx.ErrNoRows) {
			err = fmt.Errorf("its WAL does not end where that of %s ends, at %s: abort", s.oldNode.Name, s.progress.LastWAL)
		}
		return err
	})
}

// move makes clients continue at the new primary.
func (s switchover) move(ctx context.Context) error {
	if err := s.clients.Move(ctx, s.newNode); err != nil {
		return err
	}
	if err := s.clients.Release(ctx); err != nil {
		return err
	}
	if p := s.progress; p.Pause == 0 && !p.HeldAt.IsZero() {
		p.Pause = max(time.Since(p.HeldAt), 0) // the clock may have been set back between two runs
		s.log("new transactions waited for %v", p.Pause.Round(time.Millisecond))
	}
	return nil
}

// follow makes the other standbys follow the new primary.
func (s switchover) follow(ctx context.Context) error {
	for _, other := range s.others {
		if err := s.newNode.makeSlot(ctx, other); err != nil {
			return err
		}
		err := other.ask(ctx, func(c *pgx.Conn) error {
			for _, text := range []string{
				"ALTER SYSTEM SET primary_conninfo = " + literal(s.newNode.conninfo(other, s.cell.Replication)),
				"ALTER SYSTEM SET primary_slot_name = " + literal(other.slot()),
				"SELECT pg_reload_conf()",
			} {
				if _, err := c.Exec(ctx, text); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := s.waitStreaming(ctx, s.newNode, other); err != nil {
			return err
		}
	}
	return nil
}
