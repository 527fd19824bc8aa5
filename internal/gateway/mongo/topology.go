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

// Topology maps the members of a replica set to gateways. The gateways of a process share one, so that a
// client that asks one of them gets the addresses of all of them. It must not get those of the servers, to
// which it would connect directly.
type Topology struct {
	mu      sync.RWMutex
	members map[string]gateway.Advertised // by the member's name in the replica set's configuration

	standbys map[string][]string // of other gateways, by the replica set's name; see arbiter.go

	unresolved int           // gateways that have not yet asked their server for its name
	resolved   chan struct{} // closed when unresolved is 0 again
}

// maxResolveWait limits the time that clients wait for a gateway that starts.
const maxResolveWait = 5 * time.Second

// expect records that a gateway is about to learn which member it stands for. Until resolved is called, but for
// maxResolveWait at most, replies that would tell clients a member's own name are delayed. A driver that gets
// that name once connects to the member directly for the rest of its life.
func (t *Topology) expect() (resolved func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unresolved == 0 {
		t.resolved = make(chan struct{})
	}
	t.unresolved++
	once := sync.OnceFunc(t.resolveOne)
	late := time.AfterFunc(maxResolveWait, once)
	return func() { late.Stop(); once() }
}

// resolveOne records that one of the expected gateways knows its server.
func (t *Topology) resolveOne() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unresolved--; t.unresolved == 0 {
		close(t.resolved)
	}
}

// awaitResolved waits for the expected gateways, and reports whether there were any.
func (t *Topology) awaitResolved() bool {
	t.mu.RLock()
	resolved, pending := t.resolved, t.unresolved > 0
	t.mu.RUnlock()
	if pending {
		<-resolved
	}
	return pending
}

// maxMembers limits the names of members that are kept. A replica set has 50 members at most.
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

// setStandbys sets the standbys of other gateways to a replica set.
func (t *Topology) setStandbys(set string, addrs []string) {
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

// addresses provides the addresses at which the clients of one gateway find the members of a replica set: the
// gateway's own for the member behind it, and those in Topology for others.
type addresses struct {
	*Topology
	own atomic.Pointer[gateway.Advertised] // set when it serves; nil: no address to tell clients
	log *slog.Logger

	warned      sync.Map     // members without a gateway that have been logged
	warnedCount atomic.Int64 // their number
}

// learnMember records that this gateway stands for the member with this name.
func (a *addresses) learnMember(name string) {
	if own := a.own.Load(); own != nil && a.learn(name, *own) {
		a.log.Info("clients reach the replica set member through the gateway", "member", name, "gateway", net.JoinHostPort(own.Host, own.Port))
	}
}

// recordMember records the name of the server behind the gateway, and logs the URI for drivers.
func (a *addresses) recordMember(d helloReply) {
	if d.me == "" {
		return
	}
	a.learnMember(d.me)
	if own := a.own.Load(); own != nil {
		host := own.Host
		if host == "" {
			host = "THIS_HOST"
		}
		a.log.Info("the server is a replica set member; with this URI drivers find all members that have a gateway",
			"uri", "mongodb://"+net.JoinHostPort(host, own.Port)+"/?replicaSet="+d.setName, "member", d.me)
	}
}

// addressOf returns the address of a member for a client whose connection ends at local; false if no gateway stands
// for the member. It waits for gateways that start.
func (a *addresses) addressOf(member []byte, local net.Addr) (string, bool) {
	found, ok := a.find(member)
	if !ok && a.awaitResolved() {
		found, ok = a.find(member)
	}
	if !ok {
		return "", false
	}
	return found.AddressFor(local), true
}

// warnDirect logs once for each member that clients will connect to it directly.
func (a *addresses) warnDirect(member []byte) {
	if len(member) == 0 || a.warnedCount.Load() >= maxMembers {
		return
	}
	if _, logged := a.warned.LoadOrStore(string(member), true); !logged {
		a.warnedCount.Add(1)
		a.log.Warn("a replica set member has no gateway: clients connect to it directly, uncompressed", "member", string(member))
	}
}
