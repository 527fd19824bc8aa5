package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch/internal/rollout/patroni"
)

// The change of the leader: Patroni takes the old one down and promotes the new one, when it is ordered to. Clients wait meanwhile.

// hold lets the new member become the leader, and has new transactions wait when it is near.
func (m managed) hold(ctx context.Context) error {
	if err := m.ready(ctx); err != nil {
		return err
	}
	if err := m.admit(ctx); err != nil {
		return err
	}
	if err := m.old.exec(ctx, "CHECKPOINT"); err != nil { // clients would wait for what the shutdown has to write
		return err
	}
	if err := m.catchUp(ctx); err != nil {
		return err
	}
	if err := m.reach(ctx); err != nil {
		return err
	}
	m.progress.HeldAt = time.Now()
	if err := m.save(); err != nil {
		return err
	}
	return m.clients.Hold(ctx, m.cell.holdTime())
}

// admit lets the new member become the leader, and returns when Patroni knows. From then on a failover may choose it, as it may any standby, and loses what
// has not been streamed unless synchronous_mode is on. So the old leader must answer: Patroni's store names one that has died until its lock ends.
func (m managed) admit(ctx context.Context) error {
	settings, err := m.api.Settings(ctx, m.old.Patroni.API)
	if err == nil {
		_, err = m.old.inRecovery(ctx)
	}
	if err != nil {
		return err
	}
	if err := m.tag(ctx, m.made, m.progress.Tags); err != nil {
		return err
	}
	err = m.waitFor(ctx, func(c patroni.Cluster) string {
		made := c.Member(m.made.Name)
		switch {
		case !made.Up():
			return m.made.Name + " does not follow"
		case made.Tags["nofailover"] == true:
			return m.made.Name + " must not become the leader: nofailover"
		case settings.OnlySynchronous() && made.Role != patroni.SyncStandby:
			return m.made.Name + " is no synchronous standby, and Patroni lets no other become the leader: raise synchronous_node_count"
		}
		return ""
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrGate, err)
	}
	return nil
}

// ready fails when Patroni would not do what is ordered.
func (m managed) ready(ctx context.Context) error {
	c, err := m.cluster(ctx)
	if err != nil {
		return err
	}
	switch leader := c.Leader(); {
	case c.Pause:
		return errPaused
	case len(c.Scheduled) > 0:
		return fmt.Errorf("%w: a switch-over is scheduled: %s", ErrGate, c.Scheduled)
	case leader == nil:
		return errNoLeader
	case leader.Name != m.old.Name:
		return fmt.Errorf("%w: it is %s", errOtherLeader, leader.Name)
	}
	return nil
}

// fence makes sure that the new member has all that clients were told of. They wait, so nothing is added until Patroni has taken the old leader down, which is the fence.
func (m managed) fence(ctx context.Context) error {
	if err := m.ready(ctx); err != nil {
		return err
	}
	if err := m.reachAndHold(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, m.cell.shutdownTime())
	defer cancel()
	// A message of its own, since it is behind all other commits and is flushed.
	written, err := value[int64](ctx, m.old, "SELECT pg_wal_lsn_diff(pg_logical_emit_message(true, 'cinch rollout', ''), '0/0')::bigint")
	if err != nil {
		return err
	}
	m.progress.Written = written
	if err := m.save(); err != nil {
		return err
	}
	if err := waitReplayed(ctx, m.made, written-1); err != nil {
		return fmt.Errorf("%s does not have all that %s wrote: %w", m.made.Name, m.old.Name, err)
	}
	return nil
}

// promote orders the switch-over. Whether it has come to be already is asked of Patroni, not of the state.
func (m managed) promote(ctx context.Context) error {
	leader, err := m.leader(ctx)
	switch {
	case err != nil:
		return err
	case leader == m.old.Name:
		if err := m.order(ctx); err != nil {
			return err
		}
	case leader != m.made.Name:
		return fmt.Errorf("%w: it is %s", errOtherLeader, leader)
	}
	ctx, cancel := context.WithTimeout(ctx, promoteTime)
	defer cancel()
	for {
		standby, err := m.made.inRecovery(ctx)
		if err == nil && !standby {
			m.progress.Replaced = true
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, fmt.Errorf("%s is the leader, and no primary within %v", m.made.Name, promoteTime))
		case <-time.After(lookTime / 10):
		}
	}
}

// order has Patroni change the leader. The check of the step before is made again: a roll-out that was killed between them does not know what has
// been written since.
func (m managed) order(ctx context.Context) error {
	if err := m.fence(ctx); err != nil {
		return errors.Join(errNotPromoted, err)
	}
	refused := m.api.Switchover(ctx, m.made.Patroni.API, m.old.Name, m.made.Name)
	if refused != nil {
		if err := m.revoke(ctx, refused); err != nil {
			return errors.Join(refused, err)
		}
	}
	leader, err := m.awaitLeader(ctx)
	switch {
	case err != nil:
		return errors.Join(refused, err)
	case leader == m.made.Name:
		return nil
	case leader == m.old.Name:
		return fmt.Errorf("%w: %w", errNotPromoted, refused)
	}
	return fmt.Errorf("%w: it is %s", errOtherLeader, leader)
}

// revoke has an order that was refused not come to be later. The leader drops one whose candidate must not become the leader, in its next loop.
func (m managed) revoke(ctx context.Context, refused error) error {
	var no *patroni.Refusal
	if errors.As(refused, &no) && no.Definite() {
		return nil
	}
	if err := m.tag(ctx, m.made, apart); err != nil {
		return err
	}
	loop := 10 * time.Second // Patroni's own default
	if s, err := m.api.Settings(ctx, m.made.Patroni.API); err == nil && s.LoopWait > 0 {
		loop = time.Duration(s.LoopWait) * time.Second
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(2 * loop):
		return nil
	}
}

// awaitLeader returns who is the leader, when somebody is. Patroni needs the time to live of the leader's lock to find out that one has died.
func (m managed) awaitLeader(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, leaderTime)
	defer cancel()
	for {
		leader, err := m.leader(ctx)
		if err == nil {
			return leader, nil
		}
		if pause(ctx) != nil {
			return "", err
		}
	}
}

// leaderTime is for Patroni to find another leader; its ttl is 30 s unless somebody sets it.
const leaderTime = 2 * time.Minute

// unwind lets clients go on at the leader, which nothing was done to.
func (m managed) unwind(ctx context.Context) error { return m.clients.Release(ctx) }

// unpromote takes an order back that may not have come to be, and makes sure that it does not come to be later.
func (m managed) unpromote(ctx context.Context) error {
	leader, err := m.awaitLeader(ctx)
	if err == nil && leader == m.old.Name {
		if err = m.revoke(ctx, errNotPromoted); err == nil {
			leader, err = m.awaitLeader(ctx)
		}
	}
	switch {
	case err != nil:
		return err
	case leader == m.made.Name:
		return m.noWayBack()
	}
	return m.unwind(ctx)
}

// follow waits until the other members follow the new leader, which they do by themselves, and stops the old one. That one comes back as a standby too, and then
// leaves the cluster in order; if it does not it is stopped as it is.
func (m managed) follow(ctx context.Context) error {
	if err := m.waitFor(ctx, m.follows(m.others)); err != nil {
		return err
	}
	back, cancel := context.WithTimeout(ctx, m.cell.shutdownTime())
	defer cancel()
	if err := m.waitFor(back, m.follows([]*Node{m.old})); err != nil {
		m.tell("%v; it is stopped as it is", err)
	}
	return m.retire(ctx)
}

// follows looks whether members follow the new leader.
func (m managed) follows(members []*Node) func(patroni.Cluster) string {
	return func(c patroni.Cluster) string {
		for _, n := range members {
			if !c.Member(n.Name).Up() {
				return n.Name + " does not follow " + m.made.Name
			}
		}
		return ""
	}
}
