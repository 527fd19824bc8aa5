package rollout

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/rollout/patroni"
)

// Rollout replaces the nodes of a cell. Only one process at a time may do so for a cell.
type Rollout struct {
	Cell       *Cell
	Yes        bool // confirm replaced nodes automatically
	DestroyOld bool // remove the data of replaced nodes once they are confirmed
	// Tell is called with messages for the operator.
	Tell func(node, text string)

	clients Clients
	api     *patroni.Client // nil unless Patroni manages the cell
	state   *State
	resumed bool // the current step may have been taken already, by an earlier process or by Patroni
	unlock  func()
	dies    func(step Step, done bool) bool // for tests: whether the process dies here
}

// open locks the cell and reads its state.
func (r *Rollout) open() (err error) {
	if r.unlock, err = lock(r.Cell.State); err != nil {
		return err
	}
	if r.state, err = r.Cell.ReadState(); err != nil {
		r.unlock()
		return err
	}
	if r.clients == nil {
		r.clients = r.Cell.clients()
	}
	if r.Cell.Patroni != nil {
		if r.api, err = patroni.NewClient(*r.Cell.Patroni); err != nil {
			r.unlock()
		}
	}
	return err
}

// Run continues the roll-out from its current step, to the end or until an operator is needed.
func (r *Rollout) Run(ctx context.Context) error {
	if err := r.open(); err != nil {
		return err
	}
	defer r.unlock()
	r.resumed = r.state != nil
	switch {
	case r.state == nil:
		if err := r.begin(ctx); err != nil {
			return err
		}
	case r.state.Aborted:
		r.state.again()
	case slices.Contains([]Step{StepCatchUp, StepGates, StepJoin}, r.state.Step):
		r.state.Step = StepStart // the new node's machine may have been restarted
	}
	if r.state.Done {
		r.log("the roll-out is done, nothing is left to do")
	}
	for !r.state.Done {
		if err := context.Cause(r.uninterrupted(ctx)); err != nil {
			return errors.Join(err, r.record("ended by a signal"))
		}
		if err := r.observe(r.uninterrupted(ctx)); err != nil {
			return err
		}
		if err := r.take(ctx); err != nil {
			if r.elsewhere(ctx, err) {
				continue
			}
			return err
		}
		if err := r.next(); err != nil {
			return err
		}
	}
	return nil
}

// begin creates the state.
func (r *Rollout) begin(ctx context.Context) (err error) {
	if r.state, err = r.order(ctx); err != nil {
		return err
	}
	return r.record("the roll-out begins")
}

// order finds the primary, which is replaced last, and returns a new state.
func (r *Rollout) order(ctx context.Context) (*State, error) {
	s := &State{Version: stateVersion, ID: rand.Text(), Cell: r.Cell.Name, Step: StepCheck, Nodes: map[string]*Progress{}}
	primary := ""
	for i := range r.Cell.Nodes {
		n := &r.Cell.Nodes[i]
		s.Nodes[n.Name] = &Progress{}
		standby, err := n.inRecovery(ctx)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: %w", ErrCheck, err)
		case standby:
			s.Order = append(s.Order, n.Name)
		case primary != "":
			return nil, fmt.Errorf("%w: %s and %s are both primaries", ErrCheck, primary, n.Name)
		default:
			primary = n.Name
		}
	}
	if primary == "" {
		return nil, fmt.Errorf("%w: no node is a primary", ErrCheck)
	}
	s.Order, s.Primary = append(s.Order, primary), primary
	return s, nil
}

// take takes the current step. It writes the state to the disk first.
func (r *Rollout) take(ctx context.Context) error {
	resumed := r.resumed
	r.resumed = false
	switch err := r.record(string(r.state.Step)); {
	case err == nil:
	// Clients wait, and the new node is a primary: continue without the write, as a restart from the old state does
	// too.
	case r.state.Step == StepMove, r.state.Step == StepPromote && resumed && r.promoted(ctx):
		r.log("%v", err)
	case r.state.Step == StepPromote && resumed: // the new node may be a primary that does not answer
		return r.putBack(ctx, err, r.strategy().unpromote)
	case r.state.Step == StepFence, r.state.Step == StepPromote:
		return r.putBack(ctx, err, r.strategy().unwind)
	default:
		return err
	}
	if r.killed(false) {
		return context.Cause(ctx)
	}
	n := r.node()
	err := r.strategy().steps()[r.state.Step](r.uninterrupted(ctx))
	if r.killed(true) {
		return context.Cause(ctx)
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("node %s, %s: %w", n.Name, r.state.Step, err)
	if r.state.Step == StepHold || r.state.Step == StepFence || errors.Is(err, errNotPromoted) {
		err = r.putBack(ctx, err, r.strategy().unwind)
	}
	return errors.Join(err, r.record("failed: "+err.Error()))
}

// uninterrupted returns a context that a signal does not end during steps in which clients wait and nothing
// can be undone. The roll-out then ends after such a step.
func (r *Rollout) uninterrupted(ctx context.Context) context.Context {
	if r.state.Step == StepPromote || r.state.Step == StepMove {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// promoted reports whether the new node is known to be a primary.
func (r *Rollout) promoted(ctx context.Context) bool {
	standby, err := r.node().Replacement.inRecovery(r.uninterrupted(ctx))
	return err == nil && !standby
}

// putBack makes clients continue at the old primary after a failed switchover.
func (r *Rollout) putBack(ctx context.Context, failed error, undo func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	if err := undo(ctx); err != nil {
		return errors.Join(failed, err)
	}
	r.state.Step = StepHold
	return failed
}

func (r *Rollout) killed(done bool) bool { return r.dies != nil && r.dies(r.state.Step, done) }

// undoTime limits undoing steps after the roll-out itself has been ended.
const undoTime = 2 * time.Minute

// strategy returns the strategy of this cell for the current node.
func (r *Rollout) strategy() strategy {
	t := r.task()
	p := plain{preparation{t}, r.switchover(t), retirement{t, r.Yes, r.DestroyOld}}
	if r.Cell.Patroni != nil {
		return r.managed(p, t)
	}
	return p
}

func (r *Rollout) managed(p plain, t *task) managed {
	m := managed{plain: p, task: t, api: r.api, nodes: []*Node{t.newNode}}
	for i := range r.Cell.Nodes {
		m.nodes = append(m.nodes, r.current(&r.Cell.Nodes[i]))
	}
	t.changed = m.sameLeader
	return m
}

// task returns the data for the current step.
func (r *Rollout) task() *task {
	n := r.node()
	return &task{
		id: r.state.ID, cell: r.Cell, oldNode: n, newNode: n.Replacement, primary: r.primary(), progress: r.state.Nodes[n.Name],
		save: func() error { return r.state.write(r.Cell.State) }, record: r.record, log: r.log,
	}
}

func (r *Rollout) switchover(t *task) switchover {
	s := switchover{task: t, clients: r.clients}
	for i := range r.Cell.Nodes {
		if other := &r.Cell.Nodes[i]; other != s.oldNode {
			s.others = append(s.others, r.current(other))
		}
	}
	for _, p := range r.state.Nodes {
		if p.OldSlot != "" {
			s.oldSlots = append(s.oldSlots, p.OldSlot)
		}
	}
	return s
}

// next moves the state to the following step. take writes it.
func (r *Rollout) next() error {
	s := r.state
	steps := s.steps()
	at := slices.Index(steps, s.Step)
	switch {
	case at+1 < len(steps):
		s.Step = steps[at+1]
	case s.At+1 < len(s.Order):
		s.At, s.Step = s.At+1, StepCheck
	default:
		s.Done = true
		return r.record("the roll-out is done")
	}
	return nil
}

// record adds an action to the state, writes the state to the disk, and logs the action.
func (r *Rollout) record(text string) error {
	name := ""
	if len(r.state.Order) > 0 {
		name = r.state.Order[r.state.At]
	}
	r.state.Actions = append(r.state.Actions, Action{At: time.Now().UTC(), By: whoami(), Node: name, Text: text})
	r.log("%s", text)
	err := r.state.write(r.Cell.State)
	r.publishReport()
	return err
}

func (r *Rollout) log(format string, args ...any) {
	if r.Tell != nil {
		r.Tell(r.state.Order[r.state.At], fmt.Sprintf(format, args...))
	}
}

// node returns the node that is being replaced.
func (r *Rollout) node() *Node { return r.Cell.node(r.state.Order[r.state.At]) }

// current returns the node in service for n: n itself or its replacement.
func (r *Rollout) current(n *Node) *Node {
	if r.state.Nodes[n.Name].Replaced {
		return n.Replacement
	}
	return n
}

// primary returns the node that the others follow.
func (r *Rollout) primary() *Node { return r.current(r.Cell.node(r.state.Primary)) }

// Confirm records that the last replaced node is no longer needed.
func (r *Rollout) Confirm() error {
	if err := r.open(); err != nil {
		return err
	}
	defer r.unlock()
	if r.state == nil || r.state.Done || r.state.Aborted || r.state.Step != StepKeep {
		return fmt.Errorf("%w: no node waits for a confirmation", ErrState)
	}
	r.state.Nodes[r.node().Name].Confirmed = true
	return r.record("confirmed")
}

// Abort restores the cell to what it was before the current node. Nodes that have been replaced stay so.
func (r *Rollout) Abort(ctx context.Context) error {
	if err := r.open(); err != nil {
		return err
	}
	defer r.unlock()
	if r.state == nil || r.state.Done || r.state.Aborted {
		return fmt.Errorf("%w: nothing to abort", ErrState)
	}
	if err := r.record("abort at " + string(r.state.Step)); err != nil {
		return err
	}
	if err := r.observe(ctx); err != nil {
		return err
	}
	if err := r.undo(ctx); err != nil {
		return errors.Join(err, r.record("the abort failed: "+err.Error()))
	}
	r.state.Aborted = true
	return r.record("aborted")
}

// undo undoes the steps of the current node, the last one first.
func (r *Rollout) undo(ctx context.Context) error {
	m := r.strategy()
	var err error
	switch r.state.Step {
	case StepMove, StepFollow:
		err = r.task().noWayBack()
	case StepDestroy:
		err = fmt.Errorf("%w: the replacement of %s was confirmed", ErrNoWayBack, r.node().Name)
	case StepKeep:
		if r.state.primaryTurn() {
			err = r.task().noWayBack()
		} else {
			err = m.unretire(ctx)
		}
	case StepRetire, StepJoin:
		err = m.unretire(ctx)
	case StepHold, StepFence:
		err = m.unwind(context.WithoutCancel(ctx)) // half of it would leave no primary
	case StepPromote:
		err = m.unpromote(context.WithoutCancel(ctx))
	}
	if err != nil {
		return err
	}
	return r.strategy().remove(ctx)
}
