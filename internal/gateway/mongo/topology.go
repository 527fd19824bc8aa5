package mongo

import (
	"strings"
	"sync"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// Topology says which gateway stands for which member of a replica set. The gateways of a
// process share one: a client that asks one of them hears of all of them, and not of the
// servers behind, to which it would connect directly.
type Topology struct {
	mu      sync.RWMutex
	members map[string]gateway.Advertised // by the member's name in the replica set's configuration

	standbys map[string][]string // of other gateways, by the replica set's name; see standby.go
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
