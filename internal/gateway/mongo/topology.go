package mongo

import (
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
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

// addresses are those by which the clients of a gateway find the members of a replica set: its
// own for the member behind it, and for others what Topology knows.
type addresses struct {
	*Topology
	own atomic.Pointer[gateway.Advertised] // set when it serves; nil: clients can't be told of it
	log *slog.Logger

	direct  sync.Map     // members without a gateway that the log named
	directs atomic.Int64 // how many those are
}

// learnMember takes the name that the server goes by for this gateway's.
func (a *addresses) learnMember(name string) {
	if own := a.own.Load(); own != nil && a.learn(name, *own) {
		a.log.Info("clients find the member of the replica set at the gateway", "member", name, "gateway", net.JoinHostPort(own.Host, own.Port))
	}
}

// noteMember records what the server behind the gateway says of itself.
func (a *addresses) noteMember(d described) {
	if d.me == "" {
		return
	}
	a.learnMember(d.me)
	if own := a.own.Load(); own != nil {
		host := own.Host
		if host == "" {
			host = "THIS_HOST"
		}
		a.log.Info("the server is a member of a replica set; drivers find all members that have a gateway from here with",
			"uri", "mongodb://"+net.JoinHostPort(host, own.Port)+"/?replicaSet="+d.set, "member", d.me)
	}
}

// at gives the address of a member as a client must see it that is connected to local; false:
// none but the member's own. It waits for gateways that begin.
func (a *addresses) at(member []byte, local net.Addr) (string, bool) {
	found, ok := a.find(member)
	if !ok && a.settle() {
		found, ok = a.find(member)
	}
	if !ok {
		return "", false
	}
	return found.SeenFrom(local), true
}

// warnDirect tells once for each member that clients will go to it directly.
func (a *addresses) warnDirect(member []byte) {
	if len(member) == 0 || a.directs.Load() >= maxMembers {
		return
	}
	if _, told := a.direct.LoadOrStore(string(member), true); !told {
		a.directs.Add(1)
		a.log.Warn("no gateway stands for a member of the replica set: clients connect to it directly, and uncompressed", "member", string(member))
	}
}
