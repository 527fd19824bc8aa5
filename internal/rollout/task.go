package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Errors that tell callers what to do next.
var (
	// ErrUnconfirmed says that a node has been replaced, and waits for somebody to confirm that.
	ErrUnconfirmed = errors.New("the node waits to be confirmed")
	// ErrGate is wrapped by what keeps a new node from its place.
	ErrGate = errors.New("a gate is closed")
	// ErrCheck is wrapped by what stands in the way of a roll-out.
	ErrCheck = errors.New("the check")
)

// task is a node that is replaced, and what a step needs beside it.
type task struct {
	id        string // of the roll-out
	cell      *Cell
	old, made *Node
	primary   *Node // that the others follow, as the step begins
	progress  *Progress

	changed func(context.Context) error // fails when somebody else has changed the primary; nil where nobody does

	save   func() error            // the progress
	record func(text string) error // an action
	tell   func(format string, args ...any)
}

// ErrNoWayBack is wrapped by an abort behind the promotion.
var ErrNoWayBack = errors.New("there is no way back")

func (t *task) noWayBack() error {
	return fmt.Errorf("%w: %s has been promoted; go on with run", ErrNoWayBack, t.made.Name)
}

// lookTime is between two looks at something that is waited for.
const lookTime = 500 * time.Millisecond

// pause is between two looks.
func pause(ctx context.Context) error { return pauseFor(ctx, lookTime) }

func pauseFor(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// streamsTo reports whether a primary sends WAL to a standby.
func (n *Node) streamsTo(ctx context.Context, standby *Node) (bool, error) {
	return value[bool](ctx, n, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE application_name = $1 AND state = 'streaming')", standby.slot())
}
