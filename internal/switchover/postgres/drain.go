package postgres

import (
	"bytes"
	"errors"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// Drain ends the session as soon as it is idle. A new client has until newUntil for its login and first requests.
func (s *session) Drain() {
	s.mu.Lock()
	s.draining = true
	moment, ready := time.Until(s.newUntil), s.ready
	s.mu.Unlock()
	switch {
	case moment > 0:
		time.AfterFunc(moment, func() {
			defer gateway.CatchPanic(s.g.cfg.Log, s.g.cfg.Stats, func() { _ = s.Close() })
			s.Drain()
		})
	case !ready:
		_ = s.Close()
	case errors.Is(s.endIfDrained(), errEnded):
		s.end(nil)
	}
}

// noticeTime is the time between the error to busy clients and the cut of their connections.
const noticeTime = time.Second

// untilNotice returns how long a drain waits for transactions, given the time left.
func untilNotice(left time.Duration) time.Duration { return left - min(noticeTime, left/2) }

// expireSessions ends the sessions that are still busy near the end of a drain.
func expireSessions(list []*session) {
	for _, s := range list {
		go expireSession(s)
	}
}

// expireSession ends a session that is still busy. If the server is executing a statement, expireSession cancels
// it; recordReply then drops the rest and endIfDrained ends the session.
func expireSession(s *session) {
	defer gateway.CatchPanic(s.g.cfg.Log, s.g.cfg.Stats, func() { _ = s.Close() })
	s.mu.Lock()
	s.expired = true
	ready, b := s.ready, s.backend
	works := ready && s.tracker.executing() && b.key != ""
	s.mu.Unlock()
	switch {
	case !ready:
		_ = s.Close()
	case !works:
		s.end(shutdownNotice())
	default:
		if err := sendCancel(s.g.ctx, b.at, b.key); err != nil {
			s.g.cfg.Log.Debug("could not cancel a statement at the end of a drain", "client", s.raw.RemoteAddr(), "err", err)
		}
	}
}

func shutdownNotice() []byte {
	return fatal(codeShutdown, "terminating connection because the gateway is shutting down")
}

// isCancelled reports whether an ErrorResponse is query_canceled.
func isCancelled(body []byte) bool { return bytes.Contains(body, []byte("\x00C"+codeCancelled+"\x00")) }

// endIfDrained returns errEnded if a drain ends the session now.
func (s *session) endIfDrained() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	idle := s.draining && !s.tracker.busy() && !time.Now().Before(s.newUntil)
	if over := s.expired && !s.tracker.executing(); !idle && !over {
		return nil
	}
	s.farewell = shutdownNotice()
	s.changed.Broadcast()
	return errEnded
}
