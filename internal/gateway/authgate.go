package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// MaxUnauthenticatedBytes limits the messages of a client that has not logged in, in bytes, if the server requires
// logins. The messages of a login are much shorter.
const MaxUnauthenticatedBytes = 64 << 10

// ErrUnauthenticated is returned for a longer message.
var ErrUnauthenticated = errors.New("the client has not logged in")

// AuthProbe finds out whether a server requires its clients to log in. It asks the server on the first call of
// RequiresAuth, and again when the answer is older than authProbeInterval. The zero value never asks, and assumes
// that the server requires no login.
type AuthProbe struct {
	// Ask connects without logging in, and reports whether the server refuses such a client.
	Ask func(context.Context) (closed bool, err error)

	mu       sync.Mutex // locked while Ask runs
	required bool
	askedAt  time.Time // zero: never
}

const (
	authProbeTimeout  = 5 * time.Second
	authProbeInterval = 10 * time.Second
)

// RequiresAuth reports whether the server requires logins. If the server can't be asked, it returns the last
// answer, and false if there is none.
func (k *AuthProbe) RequiresAuth(ctx context.Context) bool {
	if k == nil || k.Ask == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.askedAt.IsZero() || time.Since(k.askedAt) >= authProbeInterval {
		within, cancel := context.WithTimeout(ctx, authProbeTimeout)
		defer cancel()
		switch closed, err := k.Ask(within); {
		case err == nil:
			k.required = closed
		case ctx.Err() != nil: // the client has left, so err tells nothing about the server
			return k.required
		}
		k.askedAt = time.Now()
	}
	return k.required
}

// AuthGate limits the length of a client's messages until it has logged in. A nil AuthGate has no limit.
type AuthGate struct {
	Probe         *AuthProbe
	authenticated atomic.Bool
}

// Open lifts the limit, after the client has logged in or the server has carried out a request that requires a login.
func (d *AuthGate) Open() { d.authenticated.Store(true) }

// Reset undoes Open.
func (d *AuthGate) Reset() { d.authenticated.Store(false) }

// IsOpen reports whether Open was called after the last Reset.
func (d *AuthGate) IsOpen() bool { return d.authenticated.Load() }

// MustAuthenticate reports whether the client must log in first.
func (d *AuthGate) MustAuthenticate(ctx context.Context) bool {
	return d != nil && !d.authenticated.Load() && d.Probe.RequiresAuth(ctx)
}

// CheckSize returns an error if the client must log in first and begins to send a message of more than
// MaxUnauthenticatedBytes. n is the size of the message in bytes, or its decompressed size if that is larger.
func (d *AuthGate) CheckSize(ctx context.Context, n int) error {
	if n <= MaxUnauthenticatedBytes || !d.MustAuthenticate(ctx) {
		return nil
	}
	return fmt.Errorf("%w and sent a message of %d bytes: the limit before the login is %d", ErrUnauthenticated, n, MaxUnauthenticatedBytes)
}
