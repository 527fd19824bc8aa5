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

// verdict tells whether a reply shows that its member is no longer primary.
type verdict struct {
	lost      bool // it is no longer primary
	retryable bool // drivers retry writes after this error
}

func judge(reply []byte) (v verdict) {
	_ = wire.Elements(reply, func(e wire.Element) bool {
		switch string(e.Key) {
		case "code":
			n, _ := e.Value.AsInt64OK()
			v.lost = v.lost || notPrimaryCodes[n]
		case "writeConcernError":
			v.lost = v.lost || judge(wire.Document(e.Value)).lost
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

// follower is a session to a member that may stop being primary.
type follower struct {
	member  int
	session interface{ Drain() }
	stale   atomic.Bool // the member is no longer primary
}

// retire ends the session as soon as no reply is outstanding.
func (f *follower) retire() {
	f.stale.Store(true)
	f.session.Drain()
}

// followers holds the sessions of a balancer, by member.
type followers struct {
	mu sync.Mutex
	of map[int]map[*follower]bool
}

func (f *followers) add(one *follower) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of = map[int]map[*follower]bool{}
	}
	if f.of[one.member] == nil {
		f.of[one.member] = map[*follower]bool{}
	}
	f.of[one.member][one] = true
}

func (f *followers) remove(one *follower) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.of[one.member], one)
}

// leave ends the sessions to a member except one, each as soon as no reply is outstanding.
func (f *followers) leave(member int, but *follower) {
	f.mu.Lock()
	list := f.of[member]
	delete(f.of, member)
	f.mu.Unlock()
	for one := range list {
		if one != but {
			one.retire()
		}
	}
}

// only ends the sessions to all members except the primary.
func (f *followers) only(primary int) {
	f.mu.Lock()
	var others []int
	for member := range f.of {
		if member != primary {
			others = append(others, member)
		}
	}
	f.mu.Unlock()
	for _, member := range others {
		f.leave(member, nil)
	}
}
