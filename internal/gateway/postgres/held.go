package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/postgres/control"
)

// A session, as one who holds it sees it.

// States of a session.
const (
	loggingIn     = "logging in"
	active        = "active"
	inTransaction = "in transaction"
)

func (s *session) describe() control.ClientSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := control.ClientSession{
		ID: s.number, Client: s.raw.RemoteAddr().String(), User: s.who["user"], Database: s.who["database"],
		Application: s.who["application_name"], Waiting: !s.waitsSince.IsZero(), State: "idle",
	}
	switch {
	case !s.ready:
		d.State = loggingIn
	case s.tracker.waits() || s.tracker.lost:
		d.State = active
	case s.tracker.busy():
		d.State = inTransaction
	}
	if s.tracker.lost {
		d.Reasons = append(d.Reasons, "replication, or what is not understood")
	}
	if s.trouble != "" {
		d.Reasons = append(d.Reasons, s.trouble)
	}
	if s.keeps != nil {
		d.Reasons = append(d.Reasons, s.keeps.reasons...)
	}
	return d
}

// take holds the session if it is idle.
func (s *session) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready || s.closed || s.tracker.busy() {
		return false
	}
	s.held = true
	return true
}

// stop holds the session from its next transaction on.
func (s *session) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, s.longest, s.trouble = true, 0, ""
}

// letGo ends that. What the session keeps may take memory: it is remembered only for a hold that is to come.
func (s *session) letGo(forget bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = false
	if forget {
		s.keeps = nil
	}
	s.changed.Broadcast()
}

// waited is how long the client has waited, in the hold that there is.
func (s *session) waited() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.waitsSince.IsZero() {
		return max(s.longest, time.Since(s.waitsSince))
	}
	return s.longest
}

// isLost reports whether the server has closed the connection of a session that is held.
func (s *session) isLost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && s.ready && s.backend.lost
}

// awaitIdle waits until the session is idle, or over. It is not, where ctx has ended before.
func (s *session) awaitIdle(ctx context.Context) bool {
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})
	defer stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && (!s.ready || s.tracker.busy()) {
		if ctx.Err() != nil {
			return false
		}
		s.changed.Wait()
	}
	return true
}

// reasons are those why a session that is held and idle can't be moved.
func (s *session) reasons(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	k, err := s.look(ctx)
	if err == nil {
		return k.reasons
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.farewell != nil {
		return nil
	}
	s.keeps = &keeps{reasons: []string{err.Error()}, unknown: true}
	return s.keeps.reasons
}

// known is what a session that is held keeps; nil: not known.
func (s *session) known() *keeps {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keeps
}

// lastUnnamed is the Parse of the unnamed statement, or nil.
func (s *session) lastUnnamed() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unnamed) == 0 {
		return nil
	}
	return slices.Clone(s.unnamed)
}

// cannot takes note that the session can't be moved. It reports whether that matters: the session is not over.
func (s *session) cannot(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.farewell != nil {
		return false
	}
	s.trouble = err.Error()
	return true
}
