package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Errors that tell callers what to do next.
var (
	// ErrUnconfirmed means that a node has been replaced, and an operator must confirm that.
	ErrUnconfirmed = errors.New("the node waits to be confirmed")
	// ErrGate is wrapped by errors that keep a new node from replacing the old one.
	ErrGate = errors.New("the new node can't replace the old one")
	// ErrCheck is wrapped by errors that prevent a roll-out.
	ErrCheck = errors.New("check failed")
)

// task holds a node that is being replaced, and the data for its steps.
type task struct {
	id               string // of the roll-out
	cell             *Cell
	oldNode, newNode *Node
	primary          *Node // the node that others follow, when the step begins
	progress         *Progress

	// Returns an error if Patroni has changed the primary; nil without Patroni.
	changed func(context.Context) error

	save   func() error            // saves the progress
	record func(text string) error // records an action
	log    func(format string, args ...any)
}

// ErrNoWayBack is wrapped by the error of an abort after the promotion.
var ErrNoWayBack = errors.New("this can't be undone")

func (t *task) noWayBack() error {
	return fmt.Errorf("%w: %s has been promoted; continue with run", ErrNoWayBack, t.newNode.Name)
}

// pollPause is the pause between two polls.
const pollPause = 500 * time.Millisecond

// pause waits for pollPause, or returns an error when ctx ends.
func pause(ctx context.Context) error { return pauseFor(ctx, pollPause) }

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
