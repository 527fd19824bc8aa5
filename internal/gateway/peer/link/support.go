package link

import (
	"sync"
	"sync/atomic"
	"time"
)

// Support records whether an upstream accepts links. A connection is a link from its first byte on or never, so this
// must be known before: the far gateway announces it in replies of its own protocol.
type Support struct {
	ever      atomic.Bool // it was announced at least once
	mu        sync.Mutex
	announced time.Time // when a gateway last announced that it accepts links
	refused   time.Time // when one last refused a link
	refusals  int       // since the last link that was made
}

const (
	// announcementTime limits how long new connections are links after the last announcement.
	announcementTime = 10 * time.Minute
	// refusalTime is the first pause after a refused link. It doubles up to maxRefusals times, to about an hour.
	refusalTime = time.Minute
	maxRefusals = 6
)

// Announced records that the gateway at the upstream says that it accepts links.
func (s *Support) Announced() {
	s.mu.Lock()
	s.announced = time.Now()
	s.mu.Unlock()
	s.ever.Store(true)
}

// WasAnnounced reports whether a gateway at the upstream has ever said that it accepts links. It costs little.
func (s *Support) WasAnnounced() bool { return s.ever.Load() }

// Refused records that a link could not be made although the upstream answers otherwise, and reports whether it is the
// first time since the last link.
func (s *Support) Refused() (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isBackingOff() {
		return false // other clients were refused at the same time
	}
	s.refused = time.Now()
	s.refusals++
	return s.refusals == 1
}

// Made records that a link was made, and clears refusals.
func (s *Support) Made() {
	s.mu.Lock()
	s.refusals = 0
	s.mu.Unlock()
}

// isBackingOff reports whether the last refusal still counts. s.mu must be held.
func (s *Support) isBackingOff() bool {
	return s.refusals > 0 && time.Since(s.refused) < refusalTime<<min(s.refusals-1, maxRefusals)
}

// Accepts reports whether the next connection should be a link.
func (s *Support) Accepts() bool {
	if !s.WasAnnounced() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.announced) < announcementTime && !s.isBackingOff()
}
