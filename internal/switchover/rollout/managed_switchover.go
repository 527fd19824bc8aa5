package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/rollout/patroni"
)

// The change of the leader: when ordered, Patroni demotes the old one and promotes the new one. Clients wait
// meanwhile.

// hold lets the new member become the leader, and makes new transactions wait when its lag is small.
func (m managed) hold(ctx context.Context) error {
	if err := m.ready(ctx); err != nil {
		return err
	}
	if err := m.admit(ctx); err != nil {
		return err
	}
	// Otherwise clients would wait while the shutdown writes all dirty pages.
	if err := m.oldNode.exec(ctx, "CHECKPOINT"); err != nil {
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

// admit lets the new member become the leader, and returns when Patroni knows. From then on a failover may
// choose it, as any standby, and loses what has not been streamed unless synchronous_mode is on. So the old
// leader must answer: Patroni's store names a leader that has died until its lock expires.
func (m managed) admit(ctx context.Context) error {
	settings, err := m.api.Settings(ctx, m.oldNode.Patroni.API)
	if err == nil {
		_, err = m.oldNode.inRecovery(ctx)
	}
	if err != nil {
		return err
	}
	if err := m.tag(ctx, m.newNode, m.progress.Tags); err != nil {
		return err
	}
	err = m.waitFor(ctx, func(c patroni.Cluster) string {
		newNode := c.Member(m.newNode.Name)
		switch {
		case !newNode.Up():
			return m.newNode.Name + " does not follow"
		case newNode.Tags["nofailover"] == true:
			return m.newNode.Name + " must not become the leader: nofailover"
		case settings.OnlySynchronous() && newNode.Role != patroni.SyncStandby:
			return m.newNode.Name + " is not a synchronous standby, and Patroni lets only those become the leader: raise synchronous_node_count"
		}
		return ""
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrGate, err)
	}
	return nil
}

// ready returns an error if Patroni would not obey an order.
func (m managed) ready(ctx context.Context) error {
	c, err := m.cluster(ctx)
	if err != nil {
		return err
	}
	switch leader := c.Leader(); {
	case c.Pause:
		return errPaused
	case len(c.Scheduled) > 0:
		return fmt.Errorf("%w: a switchover is scheduled: %s", ErrGate, c.Scheduled)
	case leader == nil:
		return errNoLeader
	case leader.Name != m.oldNode.Name:
		return fmt.Errorf("%w: the leader is %s", errOtherLeader, leader.Name)
	}
	return nil
}

// fence makes sure that the new member has all confirmed commits. Clients are held, so no more come until Patroni has
// demoted the old leader, which is the actual fence.
func (m managed) fence(ctx context.Context) error {
	if err := m.ready(ctx); err != nil {
		return err
	}
	if err := m.reachAndHold(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, m.cell.shutdownTime())
	defer cancel()
	// A new message comes after all other commits and is flushed.
	written, err := value[int64](ctx, m.oldNode, emitMessage)
	if err != nil {
		return err
	}
	if err := waitReplayed(ctx, m.newNode, written-1); err != nil {
		return fmt.Errorf("%s does not have all WAL that %s wrote: %w", m.newNode.Name, m.oldNode.Name, err)
	}
	return nil
}

// promote orders the switch-over. It asks Patroni, not the state, whether that has happened already.
func (m managed) promote(ctx context.Context) error {
	leader, err := m.leader(ctx)
	switch {
	case err != nil:
		return err
	case leader == m.oldNode.Name:
		if err := m.order(ctx); err != nil {
			return err
		}
	case leader != m.newNode.Name:
		return fmt.Errorf("%w: the leader is %s", errOtherLeader, leader)
	}
	ctx, cancel := context.WithTimeout(ctx, promoteTime)
	defer cancel()
	for {
		standby, err := m.newNode.inRecovery(ctx)
		if err == nil && !standby {
			m.progress.Replaced = true
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, fmt.Errorf("%s is the leader, but has not become a primary within %v", m.newNode.Name, promoteTime))
		case <-time.After(pollPause / 10):
		}
	}
}

// order makes Patroni change the leader. It repeats the check of the fence: a roll-out that was killed
// between the two does not know what has been written since.
func (m managed) order(ctx context.Context) error {
	if err := m.fence(ctx); err != nil {
		return errors.Join(errNotPromoted, err)
	}
	refused := m.api.Switchover(ctx, m.newNode.Patroni.API, m.oldNode.Name, m.newNode.Name)
	if refused != nil {
		if err := m.revoke(ctx, refused); err != nil {
			return errors.Join(refused, err)
		}
	}
	leader, err := m.awaitLeader(ctx)
	switch {
	case err != nil:
		return errors.Join(refused, err)
	case leader == m.newNode.Name:
		return nil
	case leader == m.oldNode.Name:
		return fmt.Errorf("%w: %w", errNotPromoted, refused)
	}
	return fmt.Errorf("%w: the leader is %s", errOtherLeader, leader)
}

// revoke makes sure that an order that was refused is not carried out later. It forbids the candidate to become
// the leader: then the leader drops the order in its next loop.
func (m managed) revoke(ctx context.Context, refused error) error {
	var no *patroni.Refusal
	if errors.As(refused, &no) && no.Definite() {
		return nil
	}
	if err := m.tag(ctx, m.newNode, standbyTags); err != nil {
		return err
	}
	loop := 10 * time.Second // Patroni's own default
	if s, err := m.api.Settings(ctx, m.newNode.Patroni.API); err == nil && s.LoopWait > 0 {
		loop = time.Duration(s.LoopWait) * time.Second
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(2 * loop):
		return nil
	}
}

// awaitLeader waits until there is a leader and returns its name. Patroni needs the ttl of the leader's lock
// to find out that a leader has died.
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

// leaderTime limits the wait for another leader; Patroni's ttl is 30 s by default.
const leaderTime = 2 * time.Minute

// unwind lets clients continue at the leader, which was not changed.
func (m managed) unwind(ctx context.Context) error { return m.clients.Release(ctx) }

// unpromote revokes an order unless it was carried out, so that it is not carried out later.
func (m managed) unpromote(ctx context.Context) error {
	leader, err := m.awaitLeader(ctx)
	if err == nil && leader == m.oldNode.Name {
		if err = m.revoke(ctx, errNotPromoted); err == nil {
			leader, err = m.awaitLeader(ctx)
		}
	}
	switch {
	case err != nil:
		return err
	case leader == m.newNode.Name:
		return m.noWayBack()
	}
	return m.unwind(ctx)
}

// follow waits until the other members follow the new leader, which they do by themselves, and stops the old
// leader. That one returns as a standby first, and then leaves the cluster properly. If it does not return, it is
// stopped all the same.
func (m managed) follow(ctx context.Context) error {
	if err := m.waitFor(ctx, m.follows(m.others)); err != nil {
		return err
	}
	back, cancel := context.WithTimeout(ctx, m.cell.shutdownTime())
	defer cancel()
	if err := m.waitFor(back, m.follows([]*Node{m.oldNode})); err != nil {
		m.log("%v; it is stopped anyway", err)
	}
	return m.retire(ctx)
}

// follows returns a condition for waitFor: members follow the new leader.
func (m managed) follows(members []*Node) func(patroni.Cluster) string {
	return func(c patroni.Cluster) string {
		for _, n := range members {
			if !c.Member(n.Name).Up() {
				return n.Name + " does not follow " + m.newNode.Name
			}
		}
		return ""
	}
}
