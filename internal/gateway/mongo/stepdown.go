package mongo

import (
	"sync"
	"sync/atomic"

	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// Clients of a load balancer do not monitor servers, so they keep their connections to a member that is no
// longer primary, and get errors on each of them. The first such error ends all sessions to that member:
// clients connect again, and get to the next primary.
//
// If a driver retries after the error, the session ends without delivering the reply. Drivers retry once, on
// another connection of their pool; the end of a connection makes them empty the pool, so that the retry
// waits for the next primary. Any other error is delivered first.

// notPrimaryCodes are the error codes of a server that is no longer primary, or shuts down.
var notPrimaryCodes = map[int64]bool{
	91:    true, // ShutdownInProgress
	189:   true, // PrimarySteppedDown
	10058: true, // LegacyNotPrimary
	10107: true, // NotWritablePrimary
	11600: true, // InterruptedAtShutdown
	11602: true, // InterruptedDueToReplStateChange
	13435: true, // NotPrimaryNoSecondaryOk
	13436: true, // NotPrimaryOrSecondary
}

// replyError tells whether a reply shows that its member is no longer primary.
type replyError struct {
	notPrimary bool // it is no longer primary
	retryable  bool // drivers retry writes after this error
}

func parseReplyError(reply []byte) (v replyError) {
	_ = wire.Elements(reply, func(e wire.Element) bool {
		switch string(e.Key) {
		case "code":
			n, _ := e.Value.AsInt64OK()
			v.notPrimary = v.notPrimary || notPrimaryCodes[n]
		case "writeConcernError":
			v.notPrimary = v.notPrimary || parseReplyError(wire.Document(e.Value)).notPrimary
		case "errorLabels":
			v.retryable = v.retryable || contains(wire.Document(e.Value), "RetryableWriteError")
		}
		return true
	})
	return v
}

func contains(list []byte, text string) (found bool) {
	_ = wire.Elements(list, func(e wire.Element) bool {
		found = found || string(wire.Text(e.Value)) == text
		return !found
	})
	return found
}

// memberSession is a session to a member that may stop being primary.
type memberSession struct {
	member  int
	session interface{ Drain() }
	stale   atomic.Bool // the member is no longer primary
}

// retire ends the session as soon as no reply is outstanding.
func (m *memberSession) retire() {
	m.stale.Store(true)
	m.session.Drain()
}

// memberSessions holds the sessions of a balancer, by member.
type memberSessions struct {
	mu       sync.Mutex
	byMember map[int]map[*memberSession]bool
}

func (m *memberSessions) add(s *memberSession) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byMember == nil {
		m.byMember = map[int]map[*memberSession]bool{}
	}
	if m.byMember[s.member] == nil {
		m.byMember[s.member] = map[*memberSession]bool{}
	}
	m.byMember[s.member][s] = true
}

func (m *memberSessions) remove(s *memberSession) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byMember[s.member], s)
}

// retire ends the sessions to a member but the given one, each as soon as no reply is outstanding.
func (m *memberSessions) retire(member int, except *memberSession) {
	m.mu.Lock()
	list := m.byMember[member]
	delete(m.byMember, member)
	m.mu.Unlock()
	for s := range list {
		if s != except {
			s.retire()
		}
	}
}

// retireOthers ends the sessions to all members except the primary.
func (m *memberSessions) retireOthers(primary int) {
	m.mu.Lock()
	var others []int
	for member := range m.byMember {
		if member != primary {
			others = append(others, member)
		}
	}
	m.mu.Unlock()
	for _, member := range others {
		m.retire(member, nil)
	}
}
