package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// smallLags is the number of consecutive small lags that count as caught up.
const smallLags = 4

// errRole is wrapped by the error for a server that was made a primary, or a standby, by other means.
var errRole = errors.New("the primary was changed by other means")

// lag returns how much of the primary's WAL the new node has not replayed, in bytes.
func (t *task) lag(ctx context.Context) (int64, error) {
	primary, newNode := &reusableConn{node: t.primary}, &reusableConn{node: t.newNode}
	defer primary.close(ctx)
	defer newNode.close(ctx)
	return lag(ctx, primary, newNode)
}

// lag returns the same, with reusable connections.
func lag(ctx context.Context, primary, newNode *reusableConn) (int64, error) {
	written, err := primary.number(ctx, "SELECT CASE WHEN pg_is_in_recovery() THEN -1 ELSE pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') END::bigint")
	if err == nil && written < 0 {
		err = fmt.Errorf("%w: %s is a standby", errRole, primary.node.Name)
	}
	if err != nil {
		return 0, err
	}
	replayed, err := newNode.number(ctx, "SELECT CASE WHEN pg_is_in_recovery() THEN coalesce(pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0'), 0) ELSE -1 END::bigint")
	if err == nil && replayed < 0 {
		err = fmt.Errorf("%w: %s is a primary", errRole, newNode.node.Name)
	}
	return written - replayed, err
}

// slotGone returns an error if the primary no longer keeps the WAL that a new node needs. Patroni manages its
// own slots.
func (t *task) slotGone(ctx context.Context) error {
	if t.cell.Patroni != nil {
		return nil
	}
	status, err := value[string](ctx, t.primary, "SELECT coalesce((SELECT wal_status FROM pg_replication_slots WHERE slot_name = $1), 'gone')", t.newNode.slot())
	if err != nil || status != "lost" && status != "gone" {
		return nil //nolint:nilerr // a primary that does not answer is waited for
	}
	return fmt.Errorf("%w: the slot %s at %s is %s, and with it WAL that %s needs: abort, then run makes a new copy (a higher max_slot_wal_keep_size keeps more)",
		ErrGate, t.newNode.slot(), t.primary.Name, status, t.newNode.Name)
}

// catchUp waits until a new node is close to the primary. It returns an error if the lag has not shrunk for as
// long as gates.catch_up allows.
func (t *task) catchUp(ctx context.Context) error {
	primary, newNode := &reusableConn{node: t.primary}, &reusableConn{node: t.newNode}
	defer primary.close(ctx)
	defer newNode.close(ctx)
	least, since, small := int64(-1), time.Now(), 0
	for {
		lag, err := lag(ctx, primary, newNode)
		if err != nil && t.changed != nil {
			if changed := t.changed(ctx); changed != nil {
				return changed
			}
		}
		switch {
		case errors.Is(err, errRole) && t.changed == nil:
			return err
		case err != nil && time.Since(since) > t.cell.catchUpTime():
			return fmt.Errorf("%w: %w", ErrGate, err)
		case err == nil && lag <= int64(t.cell.Gates.Lag):
			if small++; small == smallLags {
				return nil
			}
		case err == nil:
			small = 0
			t.log("%s behind", terminal.Size(lag))
			if least < 0 || lag < least {
				least, since = lag, time.Now()
			}
		}
		if small == 0 {
			if err := t.slotGone(ctx); err != nil {
				return err
			}
		}
		if time.Since(since) > t.cell.catchUpTime() {
			return fmt.Errorf("%w: %s is %s behind, without progress for %v", ErrGate, t.newNode.Name, terminal.Size(lag), t.cell.catchUpTime())
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// waitReplayed waits until a node has replayed WAL past the position beyond.
func waitReplayed(ctx context.Context, n *Node, beyond int64) error {
	return n.ask(ctx, func(c *pgx.Conn) error {
		for {
			var at int64
			if err := c.QueryRow(ctx, "SELECT coalesce(pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0'), 0)::bigint").Scan(&at); err != nil {
				return err
			}
			if at > beyond {
				return nil
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("it is %d bytes of WAL behind the primary: %w", beyond-at, ctx.Err())
			case <-time.After(pollPause / 10):
			}
		}
	})
}

// waitStreaming waits until a primary sends WAL to a standby.
func (t *task) waitStreaming(ctx context.Context, primary, standby *Node) error {
	ctx, cancel := context.WithTimeout(ctx, t.cell.catchUpTime())
	defer cancel()
	for {
		streams, err := primary.streamsTo(ctx, standby)
		if err != nil || streams {
			return err
		}
		if isStandby, err := standby.inRecovery(ctx); err == nil && !isStandby {
			return fmt.Errorf("%w: %s is a primary", errRole, standby.Name)
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("%s does not follow %s: %w", standby.Name, primary.Name, err)
		}
	}
}
