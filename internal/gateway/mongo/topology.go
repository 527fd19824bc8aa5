package mongo

import (
	"strings"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// Topology says which gateway stands for which member of a replica set. The gateways of a
// process share one: a client that asks one of them hears of all of them, and not of the
// servers behind, to which it would connect directly.
type Topology struct {
	mu      sync.RWMutex
	members map[string]gateway.Advertised // by the member's name in the replica set's configuration

	standbys map[string][]string // of other gateways, by the replica set's name; see standby.go

	strangers int           // gateways that have not asked their server yet who it is
	settled   chan struct{} // closed when there are none left
}

// longestMeeting is how long clients wait at most for a gateway that begins.
const longestMeeting = 5 * time.Second

// expect says that a gateway is about to learn which member stands behind it. Until met is
// called, for longestMeeting at most, clients that would hear of a member by its own name wait:
// a driver that hears of it once goes there directly, for as long as it lives.
func (t *Topology) expect() (met func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.strangers == 0 {
		t.settled = make(chan struct{})
	}
	t.strangers++
	once := sync.OnceFunc(t.meetOne)
	late := time.AfterFunc(longestMeeting, once)
	return func() { late.Stop(); once() }
}

// meetOne takes one off the gateways that are expected.
func (t *Topology) meetOne() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.strangers--; t.strangers == 0 {
		close(t.settled)
	}
}

// settle waits for the gateways that are expected, and reports false when there were none.
func (t *Topology) settle() bool {
	t.mu.RLock()
	settled, waits := t.settled, t.strangers > 0
	t.mu.RUnlock()
	if waits {
		<-settled
	}
	return waits
}

// maxMembers bounds the names that servers may give. A replica set has 50 members at most.
const maxMembers = 1024

func (t *Topology) learn(member string, a gateway.Advertised) (isNew bool) {
	member = strings.ToLower(member)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.members == nil {
		t.members = map[string]gateway.Advertised{}
	}
	old, known := t.members[member]
	if !known && len(t.members) >= maxMembers {
		return false
	}
	t.members[member] = a
	return !known || old != a
}

func (t *Topology) find(member []byte) (gateway.Advertised, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if a, ok := t.members[string(member)]; ok {
		return a, true
	}
	a, ok := t.members[strings.ToLower(string(member))]
	return a, ok
}

// nameStandbys notes the standbys of other gateways to a replica set.
func (t *Topology) nameStandbys(set string, addrs []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.standbys == nil {
		t.standbys = map[string][]string{}
	}
	t.standbys[set] = addrs
}

func (t *Topology) standbysOf(set string) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.standbys[set]
}
