package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/postgres/control"
)

// The session operations of a hold.

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
		ID: s.number, Client: s.raw.RemoteAddr().String(), User: s.params["user"], Database: s.params["database"],
		Application: s.params["application_name"], Waiting: !s.waitsSince.IsZero(), State: "idle",
	}
	switch {
	case !s.ready:
		d.State = loggingIn
	case s.tracker.unanswered() || s.tracker.lost:
		d.State = active
	case s.tracker.busy():
		d.State = inTransaction
	}
	if s.tracker.lost {
		d.Reasons = append(d.Reasons, "replication, or a message that the gateway does not know")
	}
	if s.moveError != "" {
		d.Reasons = append(d.Reasons, s.moveError)
	}
	if s.state != nil {
		d.Reasons = append(d.Reasons, s.state.reasons...)
	}
	return d
}

// tryHold holds the session if it is idle, and reports whether it did.
func (s *session) tryHold() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready || s.closed || s.tracker.busy() {
		return false
	}
	s.held = true
	return true
}

// hold holds the session from its next transaction on.
func (s *session) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, s.longest, s.moveError = true, 0, ""
}

// release ends the hold of the session. If forget is true it drops the known session state, which may be large
// and is needed only for a coming hold.
func (s *session) release(forget bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = false
	if forget {
		s.state = nil
	}
	s.changed.Broadcast()
}

// longestWait returns the longest wait of the client in the current hold.
func (s *session) longestWait() time.Duration {
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

// awaitIdle waits until the session is idle or over. It returns false if ctx ends first. It also returns false once
// answers has ended, if the client has not answered an authentication request by then.
func (s *session) awaitIdle(ctx, answers context.Context) bool {
	wake := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	}
	defer context.AfterFunc(ctx, wake)()
	defer context.AfterFunc(answers, wake)()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && s.farewell == nil && (!s.ready || s.tracker.busy()) {
		if ctx.Err() != nil || s.authPending && answers.Err() != nil {
			return false
		}
		s.changed.Wait()
	}
	return true
}

// unmovableReasons returns why a session that is held and idle can't be moved.
func (s *session) unmovableReasons(ctx context.Context) []string {
	if err := ctx.Err(); err != nil {
		return []string{err.Error()}
	}
	// A caller that gives up must not end the session: a query that has been sent needs its response.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), queryTime)
	defer cancel()
	k, err := s.queryState(ctx)
	if err == nil {
		return k.reasons
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.farewell != nil {
		return nil
	}
	s.state = &sessionState{reasons: []string{err.Error()}, unknown: true}
	return s.state.reasons
}

// knownState returns the state of a session that is held, or nil if it is not known.
func (s *session) knownState() *sessionState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// lastUnnamed returns the last Parse of the unnamed statement, or nil.
func (s *session) lastUnnamed() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unnamed) == 0 {
		return nil
	}
	return slices.Clone(s.unnamed)
}

// markUnmovable records why the session can't be moved. It returns false if the session is over, so that the error
// does not matter.
func (s *session) markUnmovable(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.farewell != nil {
		return false
	}
	s.moveError = err.Error()
	return true
}
