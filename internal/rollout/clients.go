package rollout

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/postgres/control"
	"github.com/cinch-layer/cinch/internal/ui"
)

// Clients are held while the primary changes. Each call may be made again.
type Clients interface {
	// Reach fails unless clients could be moved to a server that is a standby still. When they are held already, it takes as little time as it can.
	// lost names those that would be ended, as the cell's file has it, since they could not connect there again.
	Reach(ctx context.Context, to *Node) (lost string, err error)
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

// holds reports whether clients are held by this roll-out. Its hold may have ended since.
func (t through) holds(ctx context.Context) (bool, error) {
	s, err := t.gateway.State(ctx)
	return err == nil && s.Phase == control.Held && s.By == t.holder(), err
}

func (t through) Hold(ctx context.Context, bound time.Duration) error {
	held, err := t.holds(ctx)
	if err != nil {
		return err
	}
	_, err = t.gateway.Hold(ctx, control.HoldRequest{
		By: t.holder(), Within: control.Seconds(bound.Seconds()), Patience: control.Seconds(time.Duration(t.cell.Gateway.Patience).Seconds()),
		Lease: t.lease(), Unmovable: t.cell.Gateway.Unmovable, Renew: held,
	})
	return naming(err)
}

// Reach has the gateway itself connect, since its way to the new node is another one than the roll-out's. Those that this roll-out holds have logged in there
// before; of a hold that has ended, nobody counts: others have come, and what the new node asks of them may be different by now.
func (t through) Reach(ctx context.Context, to *Node) (lost string, err error) {
	waiting, err := t.holds(ctx)
	if err == nil && waiting {
		err = t.Hold(ctx, t.cell.holdTime()) // so that it does not end meanwhile
	}
	if err != nil {
		return "", err
	}
	within := t.cell.holdTime()
	if !waiting {
		within = max(within, answerTime)
	}
	parent := ctx
	ctx, cancel := context.WithTimeout(ctx, within+answerTime)
	defer cancel()
	started, err := value[string](ctx, to, "SELECT extract(epoch FROM pg_postmaster_start_time())::text")
	if err != nil {
		return "", err
	}
	at, err := target(to)
	if err != nil {
		return "", err
	}
	s, err := t.gateway.Reach(ctx, control.ReachRequest{
		To: at, Within: control.Seconds(within.Seconds()), Started: started, Logins: !waiting, Unmovable: t.cell.Gateway.Unmovable,
	})
	return named(s.Refused), t.reached(parent, to, err)
}

// reached says what an answer means. What the gateway refuses is told with what to do; a gateway that can't be asked says nothing of the new node.
func (t through) reached(ctx context.Context, to *Node, err error) error {
	var no *control.Refusal
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !errors.As(err, &no):
		return fmt.Errorf("the gateway at %s can't be asked whether it reaches %s: %w", t.gateway.Admin, to.Name, err)
	}
	return ui.WithHint(fmt.Errorf("the gateway at %s can't move clients to %s: %w", t.gateway.Admin, to.Name, naming(err)),
		"%s must let the gateway's machine and its clients' users in (firewall, listen_addresses, pg_hba.conf), by the host, port and sslmode of its url; run looks again", to.Name)
}

// ownParameters of a URL are the roll-out's own, and of no use to a gateway.
var ownParameters = []string{"user", "password", "dbname", "database", "passfile", "sslpassword", "service", "servicefile"}

// target is where a gateway moves its clients to.
func target(n *Node) (string, error) {
	u, err := url.Parse(n.URL)
	if err != nil {
		return "", err
	}
	u.User, u.Path = nil, ""
	if u.Host == "" {
		u.Path = "/" // a URL with a socket begins with three slashes
	}
	query := u.Query()
	for _, name := range ownParameters {
		query.Del(name)
	}
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// namedAtMost bounds the sessions that an error names.
const namedAtMost = 5

// naming has an error name the sessions that are the reason.
func naming(err error) error {
	var no *control.Refusal
	if !errors.As(err, &no) || len(no.Sessions) == 0 {
		return err
	}
	return fmt.Errorf("%w: %s", err, named(no.Sessions))
}

// named are sessions, a few by name.
func named(sessions []control.ClientSession) string {
	var list []string
	for _, s := range sessions[:min(len(sessions), namedAtMost)] {
		list = append(list, control.Shown(fmt.Sprintf("%s at %s (%s, %s): %s", s.User, s.Database, s.Client, s.State, strings.Join(s.Reasons, ", "))))
	}
	if more := len(sessions) - len(list); more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, "; ")
}

// Move holds clients first, if a hold has ended since somebody who held them was killed.
func (t through) Move(ctx context.Context, to *Node) error {
	if err := t.Hold(ctx, t.cell.holdTime()); err != nil {
		return err
	}
	at, err := target(to)
	if err != nil {
		return err
	}
	_, err = t.gateway.Move(ctx, control.MoveRequest{To: at, Unmovable: t.cell.Gateway.Unmovable})
	return naming(err)
}

// Release leaves a hold of somebody else's alone.
func (t through) Release(ctx context.Context) error {
	held, err := t.holds(ctx)
	if err != nil || !held {
		return err
	}
	_, err = t.gateway.Release(ctx)
	return err
}

// hooked leaves it to a fleet's own commands.
type hooked struct{ cell *Cell }

// Reach is up to the hooks.
func (h hooked) Reach(context.Context, *Node) (string, error) { return "", nil }

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
