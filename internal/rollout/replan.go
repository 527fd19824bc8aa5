package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Patroni may make another node the primary at any time: because the old one has died, or because somebody ordered it. A roll-out notices
// before each step and while it takes one, moves clients there, and goes on with what is left to do for the node that it is at.

// observe follows what Patroni has decided, if it manages the cell.
func (r *Rollout) observe(ctx context.Context) error {
	m, ok := r.manner().(managed)
	if !ok {
		return nil
	}
	leader, err := m.awaitLeader(ctx)
	if err != nil {
		return err
	}
	if leader == r.primary().Name {
		return nil
	}
	s, n := r.state, r.stands(leader)
	switch {
	case leader == m.old.Name && m.progress.Replaced && (s.Step == StepMove || s.Step == StepFollow): // the new one died, and the old one is back
		n, s.Step, m.progress.Replaced = m.old, StepCatchUp, false
	case leader != m.made.Name:
	case s.Step == StepHold || s.Step == StepFence: // it has not been seen to have all that clients were told of
		s.Step = StepPromote
		return r.record(fmt.Sprintf("Patroni has made %s the leader by itself: commits of the last moment may be missing, unless synchronous_mode is on", leader))
	case s.Step == StepPromote: // which finds out
		return s.write(r.Cell.State)
	case s.Step == StepJoin || s.Step == StepRetire: // a standby that has passed its gates, and is the primary before its turn
		n, s.Step, m.progress.Replaced = m.old, StepFollow, true
	}
	if n == nil {
		return fmt.Errorf("%w: it is %s, which stands for no node of this cell now: make another one the leader (patronictl switchover)", errOtherLeader, leader)
	}
	if err := r.replan(n); err != nil {
		return err
	}
	return errors.Join(r.clients.Move(ctx, r.current(n)), r.clients.Release(ctx))
}

// elsewhere reports whether a step failed since Patroni has made another leader, or is about to: the one that was does not answer. The roll-out then goes on there.
func (r *Rollout) elsewhere(ctx context.Context, failed error) bool {
	m, ok := r.manner().(managed)
	if !ok || ctx.Err() != nil {
		return false
	}
	if errors.Is(failed, errOtherLeader) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, leaderTime)
	defer cancel()
	for {
		leader, err := m.leader(ctx)
		if err == nil && leader != r.primary().Name {
			return true
		}
		if _, err := r.primary().inRecovery(ctx); err == nil || pause(ctx) != nil {
			return false
		}
	}
}

// stands is the node that a member of this name stands for now.
func (r *Rollout) stands(name string) *Node {
	for i := range r.Cell.Nodes {
		if n := &r.Cell.Nodes[i]; r.current(n).Name == name {
			return n
		}
	}
	return nil
}

// replan goes on with another primary.
func (r *Rollout) replan(primary *Node) error {
	s := r.state
	was := s.primaryTurn()
	s.Primary = primary.Name
	if rest := s.Order[s.At+1:]; slices.Contains(rest, primary.Name) {
		at := slices.Index(rest, primary.Name)
		copy(rest[at:], rest[at+1:])
		rest[len(rest)-1] = primary.Name
	}
	switch is := s.primaryTurn(); {
	case is && !was && (s.Step == StepJoin || s.Step == StepRetire):
		s.Step = StepHold
	case !is && was && (s.Step == StepHold || s.Step == StepFence || s.Step == StepPromote):
		s.Step = StepCatchUp // it passed its gates, with another primary
	case !is && was && (s.Step == StepMove || s.Step == StepFollow):
		s.Step = StepRetire
	}
	return r.record(fmt.Sprintf("Patroni has made %s the leader; clients go there", r.current(primary).Name))
}
