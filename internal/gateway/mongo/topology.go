package mongo

import (
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
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

// renamer gives the addresses of members as the client of s must see them. A hello tells
// what the server calls itself: that name is this gateway's from now on. Another gateway sees
// the members' own names, and puts its addresses in their place: it knows of all members, and
// we often of one.
func (s *session) renamer(doc []byte, h *handshake) func([]byte) (string, bool) {
	asItIs := func([]byte) (string, bool) { return "", false }
	if len(s.g.cfg.Members) > 0 {
		return asItIs
	}
	d, err := describe(doc)
	if err == nil && d.me != "" {
		s.g.learnMember(d.me)
	}
	if slices.Contains(h.shown, wire.BetweenGateways) {
		return asItIs
	}
	if err == nil && d.me != "" {
		h.standbys = s.g.cfg.Topology.standbysOf(d.set)
	}
	return func(member []byte) (string, bool) {
		a, ok := s.g.cfg.Topology.find(member)
		if !ok {
			s.g.warnDirect(member)
			return "", false
		}
		return a.SeenFrom(s.client.LocalAddr()), true
	}
}

// URI is how drivers connect to the gateway alone, once it serves on a listener of that
// address.
func (g *Gateway) URI(l net.Addr) string {
	if len(g.cfg.Members) > 0 && !g.cfg.isStandby() {
		a, _ := gateway.AdvertisedAs(g.cfg.Advertise, l)
		return "mongodb://" + a.SeenFrom(l) + "/?loadBalanced=true"
	}
	a, ok := gateway.AdvertisedAs(g.cfg.Advertise, l)
	if !ok {
		return "mongodb://" + strings.ReplaceAll(l.String(), "/", "%2F") + "/?directConnection=true"
	}
	return "mongodb://" + a.SeenFrom(l) + "/?directConnection=true"
}

func (g *Gateway) learnMember(name string) {
	if a := g.advertised.Load(); a != nil && g.cfg.Topology.learn(name, *a) {
		g.cfg.Log.Info("clients find the member of the replica set at the gateway", "member", name, "gateway", net.JoinHostPort(a.Host, a.Port))
	}
}

// warnDirect tells once for each member that clients will go to it directly.
func (g *Gateway) warnDirect(member []byte) {
	if len(member) == 0 || g.directs.Load() >= maxMembers {
		return
	}
	if _, told := g.direct.LoadOrStore(string(member), true); !told {
		g.directs.Add(1)
		g.cfg.Log.Warn("no gateway stands for a member of the replica set: clients connect to it directly, and uncompressed", "member", string(member))
	}
}
