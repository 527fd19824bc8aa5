package rollout

import (
	"context"
	"errors"
)

// manner is how the nodes of a cell are made, change places and end.
type manner interface {
	// steps are what is done. Each can be taken again when it has been done, or half done.
	steps() map[Step]func(context.Context) error
	// find looks for what somebody should know before a node is replaced.
	find(ctx context.Context) ([]Finding, error)

	// What takes steps back.
	unwind(ctx context.Context) error    // hold and fence: the old primary is one, and clients go on there
	unpromote(ctx context.Context) error // promote, which may have come to be
	unretire(ctx context.Context) error  // a standby that was retired
	remove(ctx context.Context) error    // a new node that will not be used
}

// errNotPromoted is wrapped by a promotion that has not come to be, and will not.
var errNotPromoted = errors.New("the primary has not changed")

// plain is the manner of a cell that nobody else manages: PostgreSQL's own programs do everything.
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

// startAndHold is of a new node whose machine may have been started anew since it passed its gates.
func (p plain) startAndHold(ctx context.Context) error {
	if err := p.start(ctx); err != nil {
		return err
	}
	return p.hold(ctx)
}

// find is of the task that the three are about, and of who holds the clients.
func (p plain) find(ctx context.Context) ([]Finding, error) {
	found, err := p.preparation.find(ctx)
	if err != nil {
		return nil, err
	}
	f := &findings{node: p.preparation.old.Name, list: found}
	if p.preparation.cell.Patroni == nil { // which has its members follow by itself
		t := p.switchover
		if err := findStrangers(ctx, f, neighbours{t.cell, t.primary, t.old, t.others, t.oldSlots}); err != nil {
			return nil, err
		}
	}
	if t, ok := p.clients.(through); ok {
		findGateway(ctx, t, f, p.preparation.primary)
	}
	return f.list, nil
}
