package rollout

import (
	"context"
	"net/url"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/postgres/control"
)

// Clients are held while the primary changes. Each call may be made again.
type Clients interface {
	// Hold has new transactions wait, and returns when those under way have ended. If they don't within the bound, nobody waits any more, and it
	// fails.
	Hold(ctx context.Context, bound time.Duration) error
	// Move has clients go on at another server, when they are released.
	Move(ctx context.Context, to *Node) error
	// Release lets transactions go on.
	Release(ctx context.Context) error
}

func (c *Cell) clients() Clients {
	if g := c.Gateway; g.Admin != "" {
		return through{&control.Client{Admin: g.Admin, TokenFile: g.TokenFile, Gateway: g.Name}, c}
	}
	return hooked{c}
}

// through holds them in a gateway.
type through struct {
	gateway *control.Client
	cell    *Cell
}

// holder is who holds, as the gateway says it.
func (t through) holder() string { return "cinch rollout of " + t.cell.Name }

// lease is how long a hold lasts that nobody renews. The longest step within it is a shutdown, or a promotion.
func (t through) lease() control.Seconds {
	return control.Seconds((t.cell.shutdownTime() + promoteTime).Seconds())
}

func (t through) Hold(ctx context.Context, bound time.Duration) error {
	s, err := t.gateway.State(ctx)
	if err != nil {
		return err
	}
	held := s.Phase == control.Held && s.By == t.holder()
	_, err = t.gateway.Hold(ctx, control.HoldRequest{
		By: t.holder(), Within: control.Seconds(bound.Seconds()), Patience: control.Seconds(time.Duration(t.cell.Gateway.Patience).Seconds()),
		Lease: t.lease(), Unmovable: t.cell.Gateway.Unmovable, Renew: held,
	})
	return err
}

// Move holds clients first, if a hold has ended since somebody who held them was killed.
func (t through) Move(ctx context.Context, to *Node) error {
	if err := t.Hold(ctx, t.cell.holdTime()); err != nil {
		return err
	}
	u, err := url.Parse(to.URL)
	if err != nil {
		return err
	}
	u.User, u.Path = nil, ""
	_, err = t.gateway.Move(ctx, control.MoveRequest{To: u.String(), Unmovable: t.cell.Gateway.Unmovable})
	return err
}

// Release leaves a hold of somebody else's alone.
func (t through) Release(ctx context.Context) error {
	s, err := t.gateway.State(ctx)
	if err != nil || s.Phase != control.Held || s.By != t.holder() {
		return err
	}
	_, err = t.gateway.Release(ctx)
	return err
}

// hooked leaves it to a fleet's own commands.
type hooked struct{ cell *Cell }

func (h hooked) Hold(ctx context.Context, bound time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return h.cell.hook(ctx, h.cell.Hooks.Hold, nil)
}

func (h hooked) Move(ctx context.Context, to *Node) error {
	return h.cell.hook(ctx, h.cell.Hooks.Move, to)
}

func (h hooked) Release(ctx context.Context) error {
	return h.cell.hook(ctx, h.cell.Hooks.Release, nil)
}

// hook runs a command of the fleet's own, about a new node. No command is a success.
func (c *Cell) hook(ctx context.Context, command []string, about *Node) error {
	if len(command) == 0 {
		return nil
	}
	env := []string{"CINCH_CELL=" + c.Name}
	if about != nil {
		env = append(env, "CINCH_NEW_NODE="+about.Name, "CINCH_NEW_URL="+about.URL, "CINCH_NEW_DIRECTORY="+about.Directory)
		for i := range c.Nodes {
			if c.Nodes[i].Replacement == about {
				env = append(env, "CINCH_NODE="+c.Nodes[i].Name)
			}
		}
	}
	_, err := execute(ctx, env, command)
	return err
}
