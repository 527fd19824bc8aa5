package rollout

import (
	"context"
	"errors"
)

// strategy implements the steps for a cell: how its nodes are made, take over and end.
type strategy interface {
	// steps returns the steps. Each can be repeated when it was done, or half done.
	steps() map[Step]func(context.Context) error
	// find returns what the operator should know before a node is replaced.
	find(ctx context.Context) ([]Finding, error)

	// These undo steps.
	unwind(ctx context.Context) error    // hold and fence: clients continue at the old primary
	unpromote(ctx context.Context) error // promote, which may have been done
	unretire(ctx context.Context) error  // retire of a standby
	remove(ctx context.Context) error    // the new node, which will not be used
}

// errNotPromoted is wrapped by the error of a promotion that did not happen and will not.
var errNotPromoted = errors.New("the primary was not changed")

// plain implements strategy for a cell without a cluster manager, with PostgreSQL's own programs.
type plain struct {
	preparation
	switchover
	retirement
}

func (p plain) steps() map[Step]func(context.Context) error {
	return map[Step]func(context.Context) error{
		StepCheck:     func(ctx context.Context) error { p.preparation.settle(ctx); return p.refuse(p.find(ctx)) },
		StepProvision: p.provision,
		StepBackup:    p.backup,
		StepStart:     p.start,
		StepCatchUp:   p.preparation.catchUp,
		StepGates:     p.gates,
		StepHold:      p.startAndHold,
		StepFence:     p.fence,
		StepPromote:   p.promote,
		StepMove:      p.move,
		StepFollow:    p.follow,
		StepJoin:      p.join,
		StepRetire:    p.retire,
		StepKeep:      p.keep,
		StepDestroy:   p.destroy,
	}
}

// startAndHold starts the new node if necessary, because its machine may have been restarted since the gates,
// and holds clients.
func (p plain) startAndHold(ctx context.Context) error {
	if err := p.start(ctx); err != nil {
		return err
	}
	return p.hold(ctx)
}

// find runs the checks of the node, of followers, and of the gateway.
func (p plain) find(ctx context.Context) ([]Finding, error) {
	found, err := p.preparation.find(ctx)
	if err != nil {
		return nil, err
	}
	f := &findings{node: p.preparation.oldNode.Name, list: found}
	if p.preparation.cell.Patroni == nil { // Patroni makes its members follow
		t := p.switchover
		if err := findUnknownFollowers(ctx, f, neighbours{t.cell, t.primary, t.oldNode, t.others, t.oldSlots}); err != nil {
			return nil, err
		}
	}
	if t, ok := p.clients.(through); ok {
		findGateway(ctx, t, f, p.preparation.primary)
	}
	return f.list, nil
}
