package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// StrangerBytes is the longest message of a client that has not logged in, where the server asks
// for that. What logging in takes is much shorter.
const StrangerBytes = 64 << 10

// ErrStranger reports a longer one.
var ErrStranger = errors.New("the client has not logged in")

// Doorkeeper knows whether a server asks its clients to log in. It asks when that matters, and
// again after a while, since the answer may change. Its zero value never asks, and takes it that
// the server does not.
type Doorkeeper struct {
	// Ask connects as a client who doesn't log in would, and reports whether that one can do
	// anything with the server.
	Ask func(context.Context) (closed bool, err error)

	mu     sync.Mutex // held while it asks
	closed bool
	asked  time.Time // the zero time: never
}

const (
	askTimeout = 5 * time.Second
	askAgain   = 10 * time.Second
)

// Closed reports whether the server asks clients to log in. Where it can't be found out it says
// what it was before, and at first that it does not.
func (k *Doorkeeper) Closed(ctx context.Context) bool {
	if k == nil || k.Ask == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.asked.IsZero() || time.Since(k.asked) >= askAgain {
		within, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		switch closed, err := k.Ask(within); {
		case err == nil:
			k.closed = closed
		case ctx.Err() != nil: // the client has left, and says nothing of the server
			return k.closed
		}
		k.asked = time.Now()
	}
	return k.closed
}

// Door is what a client has to pass before its messages may be long. A nil Door is open.
type Door struct {
	Keeper *Doorkeeper
	known  atomic.Bool
}

// Pass lets the client in: it has logged in, or the server has done for it what it does not do for
// strangers.
func (d *Door) Pass() { d.known.Store(true) }

// Shut takes it back.
func (d *Door) Shut() { d.known.Store(false) }

// Passed reports whether the client is in.
func (d *Door) Passed() bool { return d.known.Load() }

// Stranger reports whether the client must log in first.
func (d *Door) Stranger(ctx context.Context) bool {
	return d != nil && !d.known.Load() && d.Keeper.Closed(ctx)
}

// Admit refuses a message of n bytes, in the longest of its forms, that begins to come from a client that must log in
// first and has not.
func (d *Door) Admit(ctx context.Context, n int) error {
	if n <= StrangerBytes || !d.Stranger(ctx) {
		return nil
	}
	return fmt.Errorf("%w, and sends a message of %d bytes; until then %d are allowed", ErrStranger, n, StrangerBytes)
}
