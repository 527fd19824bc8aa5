package mongo

import (
	"net"
	"strings"
	"sync"
)

// Topology says which gateway stands for which member of a replica set. The gateways of a
// process share one: a client that asks one of them hears of all of them, and not of the
// servers behind, to which it would connect directly.
type Topology struct {
	mu      sync.RWMutex
	members map[string]address // by the member's name in the replica set's configuration
}

// address is where clients reach a gateway.
type address struct {
	host string // "": the host that the client dialled
	port string
}

func (t *Topology) learn(member string, a address) (isNew bool) {
	member = strings.ToLower(member)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.members == nil {
		t.members = map[string]address{}
	}
	old, known := t.members[member]
	t.members[member] = a
	return !known || old != a
}

func (t *Topology) find(member []byte) (address, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if a, ok := t.members[string(member)]; ok {
		return a, true
	}
	a, ok := t.members[strings.ToLower(string(member))]
	return a, ok
}

// seenFrom is the address for a client whose connection ends at local.
func (a address) seenFrom(local net.Addr) string {
	host := a.host
	if host == "" {
		host = "localhost"
		if tcp, ok := local.(*net.TCPAddr); ok {
			if host = tcp.IP.String(); tcp.IP.IsUnspecified() {
				host = "localhost"
			}
		}
	}
	return net.JoinHostPort(host, a.port)
}

// advertised is where clients reach a gateway that listens on l: what its configuration
// says, else the listener's address, and where that means all interfaces the one that the
// client has found.
func advertised(configured string, l net.Addr) (address, bool) {
	text := configured
	if text == "" {
		text = l.String()
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil || l.Network() == "unix" && configured == "" {
		return address{}, false
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = ""
	}
	return address{host, port}, true
}

// renamer gives the addresses of members as the client of s must see them. A hello tells
// what the server calls itself: that name is this gateway's from now on.
func (s *session) renamer(doc []byte) func([]byte) (string, bool) {
	if len(s.g.cfg.Members) > 0 {
		return func([]byte) (string, bool) { return "", false }
	}
	if d, err := describe(doc); err == nil && d.me != "" {
		s.g.learnMember(d.me)
	}
	return func(member []byte) (string, bool) {
		a, ok := s.g.cfg.Topology.find(member)
		if !ok {
			s.g.warnDirect(member)
			return "", false
		}
		return a.seenFrom(s.client.LocalAddr()), true
	}
}

// URI is how drivers connect to the gateway alone, once it serves on a listener of that
// address.
func (g *Gateway) URI(l net.Addr) string {
	if len(g.cfg.Members) > 0 {
		a, _ := advertised(g.cfg.Advertise, l)
		return "mongodb://" + a.seenFrom(l) + "/?loadBalanced=true"
	}
	a, ok := advertised(g.cfg.Advertise, l)
	if !ok {
		return "mongodb://" + strings.ReplaceAll(l.String(), "/", "%2F") + "/?directConnection=true"
	}
	return "mongodb://" + a.seenFrom(l) + "/?directConnection=true"
}

func (g *Gateway) learnMember(name string) {
	if a := g.advertised.Load(); a != nil && g.cfg.Topology.learn(name, *a) {
		g.cfg.Log.Info("clients find the member of the replica set at the gateway", "member", name, "gateway", net.JoinHostPort(a.host, a.port))
	}
}

// warnDirect tells once for each member that clients will go to it directly.
func (g *Gateway) warnDirect(member []byte) {
	if len(member) == 0 {
		return
	}
	if _, told := g.direct.LoadOrStore(string(member), true); !told {
		g.cfg.Log.Warn("no gateway stands for a member of the replica set: clients connect to it directly, and uncompressed", "member", string(member))
	}
}
