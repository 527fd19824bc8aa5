package rollout

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/switchover/postgres/control"
)

// Clients holds and moves the clients while the primary changes. Each call may be repeated.
type Clients interface {
	// Reach returns an error unless clients could be moved to a server that is still a standby. While clients
	// are held it takes as little time as possible. lost names the clients that would be ended, as the cell's
	// file allows, because they could not log in there.
	Reach(ctx context.Context, to *Node) (lost string, err error)
	// Hold makes new transactions wait, and returns when the open ones have ended. If they don't end within bound, it
	// releases all clients and returns an error.
	Hold(ctx context.Context, bound time.Duration) error
	// Move directs clients to another server; they use it once they are released.
	Move(ctx context.Context, to *Node) error
	// Release lets transactions continue.
	Release(ctx context.Context) error
}

func (c *Cell) clients() Clients {
	if g := c.Gateway; g.Admin != "" {
		return through{&control.Client{Admin: g.Admin, TokenFile: g.TokenFile, Gateway: g.Name}, c}
	}
	return hooked{c}
}

// through holds clients in a gateway.
type through struct {
	gateway *control.Client
	cell    *Cell
}

// holder returns the name by which the gateway knows the holder.
func (t through) holder() string { return "cinch rollout of " + t.cell.Name }

// lease returns how long a hold lasts without renewal. The longest step within it is a shutdown or a
// promotion.
func (t through) lease() control.Seconds {
	return control.Seconds((t.cell.shutdownTime() + promoteTime).Seconds())
}

// holds reports whether clients are held by this roll-out. Its hold may have ended meanwhile.
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
	return withSessions(err)
}

// Reach makes the gateway itself connect, because its network path to the new node is not the roll-out's. For
// clients held by this roll-out logins were tested before the hold. If the hold has ended since then, logins are
// tested again: there may be other clients, and the new node's rules may have changed.
func (t through) Reach(ctx context.Context, to *Node) (lost string, err error) {
	waiting, err := t.holds(ctx)
	if err == nil && waiting {
		err = t.Hold(ctx, t.cell.holdTime()) // so that the hold does not end meanwhile
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
	return sessionList(s.Refused), t.reached(parent, to, err)
}

// reached returns the error for the gateway's answer. A refusal gets a hint. If the gateway can't be asked, it is
// unknown whether the new node accepts clients.
func (t through) reached(ctx context.Context, to *Node, err error) error {
	var no *control.Refusal
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !errors.As(err, &no):
		return fmt.Errorf("ask the gateway at %s whether it can reach %s: %w", t.gateway.Admin, to.Name, err)
	}
	return terminal.WithHint(fmt.Errorf("the gateway at %s can't move clients to %s: %w", t.gateway.Admin, to.Name, withSessions(err)),
		"%s must accept the gateway's machine and its clients' users (firewall, listen_addresses, pg_hba.conf) at the host, port and sslmode of its url; run checks again", to.Name)
}

// ownParameters lists parameters of a URL that only the roll-out uses, not a gateway.
var ownParameters = []string{"user", "password", "dbname", "database", "passfile", "sslpassword", "service", "servicefile"}

// target returns the URL to which a gateway moves its clients.
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

// maxNamedSessions limits the sessions that an error names.
const maxNamedSessions = 5

// withSessions adds the sessions that caused an error.
func withSessions(err error) error {
	var no *control.Refusal
	if !errors.As(err, &no) || len(no.Sessions) == 0 {
		return err
	}
	return fmt.Errorf("%w: %s", err, sessionList(no.Sessions))
}

// sessionList returns a text with the first sessions.
func sessionList(sessions []control.ClientSession) string {
	var list []string
	for _, s := range sessions[:min(len(sessions), maxNamedSessions)] {
		list = append(list, control.Shown(fmt.Sprintf("%s at %s (%s, %s): %s", s.User, s.Database, s.Client, s.State, strings.Join(s.Reasons, ", "))))
	}
	if more := len(sessions) - len(list); more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, "; ")
}

// Move first renews the hold, or holds clients again if the hold has ended because its holder was killed.
func (t through) Move(ctx context.Context, to *Node) error {
	if err := t.Hold(ctx, t.cell.holdTime()); err != nil {
		return err
	}
	at, err := target(to)
	if err != nil {
		return err
	}
	_, err = t.gateway.Move(ctx, control.MoveRequest{To: at, Unmovable: t.cell.Gateway.Unmovable})
	return withSessions(err)
}

// Release leaves a hold of another holder alone.
func (t through) Release(ctx context.Context) error {
	held, err := t.holds(ctx)
	if err != nil || !held {
		return err
	}
	_, err = t.gateway.Release(ctx)
	return err
}

// hooked holds and moves clients by hooks.
type hooked struct{ cell *Cell }

// Reach does nothing: the hooks are responsible.
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

// hook runs a hook about a new node; nil: none, for hold and release. An empty command succeeds.
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
