package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Patroni may make another node the primary at any time: because the old one has died, or because an operator
// ordered it. A roll-out checks for that before each step and while it takes one, moves clients there, and
// continues with what is left to do for the current node.

// observe adapts the roll-out to Patroni's current leader, if Patroni manages the cell.
func (r *Rollout) observe(ctx context.Context) error {
	m, ok := r.strategy().(managed)
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
	s, n := r.state, r.nodeOfMember(leader)
	switch {
	// The new leader has died, and the old one leads again.
	case leader == m.oldNode.Name && m.progress.Replaced && (s.Step == StepMove || s.Step == StepFollow):
		n, s.Step, m.progress.Replaced = m.oldNode, StepCatchUp, false
	case leader != m.newNode.Name:
	case s.Step == StepHold || s.Step == StepFence: // the new leader may lack confirmed commits
		s.Step, r.resumed = StepPromote, true
		return r.record(fmt.Sprintf("Patroni has made %s the leader by itself: the last commits may be missing, unless synchronous_mode is on", leader))
	case s.Step == StepPromote: // the step itself handles it
		return nil
	case s.Step == StepJoin || s.Step == StepRetire: // the new node passed its gates, and leads already
		n, s.Step, m.progress.Replaced = m.oldNode, StepFollow, true
	}
	if n == nil {
		return fmt.Errorf("%w: the leader is %s, which is not a node of this cell: make another member the leader (patronictl switchover)", errOtherLeader, leader)
	}
	if err := r.replan(n); err != nil {
		return err
	}
	return errors.Join(r.clients.Move(ctx, r.current(n)), r.clients.Release(ctx))
}

// elsewhere reports whether a step failed because Patroni has changed the leader, or is about to: the old one
// does not answer. Then the roll-out continues at the new one.
func (r *Rollout) elsewhere(ctx context.Context, failed error) bool {
	m, ok := r.strategy().(managed)
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

// nodeOfMember returns the node whose server in service is the member of this name, or nil.
func (r *Rollout) nodeOfMember(name string) *Node {
	for i := range r.Cell.Nodes {
		if n := &r.Cell.Nodes[i]; r.current(n).Name == name {
			return n
		}
	}
	return nil
}

// replan continues with another primary.
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
		s.Step = StepCatchUp // it passed its gates with another primary
	case !is && was && (s.Step == StepMove || s.Step == StepFollow):
		s.Step = StepRetire
	}
	return r.record(fmt.Sprintf("Patroni has made %s the leader; clients are moved there", r.current(primary).Name))
}
