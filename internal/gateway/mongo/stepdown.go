package mongo

import (
	"sync"
	"sync/atomic"

	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// Clients of a load balancer do not watch servers, so they keep their connections to a member
// that is primary no more, and get errors on each of them for as long as it lives. The first
// such error ends all sessions that lead there: clients connect again, and find the next one.
//
// An error that a driver answers by trying again ends the session in place of the reply. Drivers
// try once, on another connection of their pool; the end of a connection makes them empty the pool,
// so that the second try waits for the next primary. Any other error reaches the client first.

// notPrimaryCodes are those by which a server says that it is primary no more, or ends.
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

// verdict is what a reply says about the member that sent it.
type verdict struct {
	lost      bool // it is primary no more
	retryable bool // and a driver that writes tries again
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

// follower is a session, as the member sees it that it leads to.
type follower struct {
	member  int
	session interface{ Drain() }
	stale   atomic.Bool // the member is primary no more
}

// retire ends the session at the next place where no reply is outstanding.
func (f *follower) retire() {
	f.stale.Store(true)
	f.session.Drain()
}

// followers are the sessions of a balancer, by the member that they lead to.
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

// leave ends the sessions that lead to a member, but for one, each when nothing is outstanding.
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

// only ends the sessions that lead to other members than the primary.
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
