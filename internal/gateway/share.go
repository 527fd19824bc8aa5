package gateway

import (
	"net"
	"net/netip"
	"sync"
)

// How much of what is free somebody may hold: so many times as much as is still free then. So a
// connection that is alone gets a half, the next one a half of the rest, and an address three
// quarters: however much one takes, something is left for the next. Nobody has to know how many there
// are. When it has become too little for what somebody needs, there is still the reserve.
const (
	gatewayParts    = 3 // a gateway, of the process' budget
	clientParts     = 3 // the connections from one address, of what their gateway may have
	connectionParts = 1 // a connection, of what its address may have
)

// room is what somebody who holds used may add, when free is free.
func room(parts, free, used int64) int64 { return (parts*free - used) / (parts + 1) }

// Share is what one gateway has of a budget. A nil Share has no bound.
type Share struct {
	budget  *Budget
	gateway string

	// Guarded by budget.mu.
	used     int64     // from what all share
	promised int64     // of the reserve
	waiters  []*waiter // those whose turn is first in front
	scan     uint64    // number of the last one of these

	mu      sync.Mutex
	clients map[string]*Client
}

// Client is what the connections from one address have of a gateway's share. A nil Client has no
// bound.
type Client struct {
	of          *Share
	name        string
	used        int64 // guarded by budget.mu
	promised    int64 // of the reserve, likewise
	scan        uint64
	looks       [2]int // at its waiters in that scan: those with long claims, and those with short ones
	connections int    // guarded by of.mu
}

// Share returns the share of a gateway, the same for the same name.
func (b *Budget) Share(gateway string) *Share {
	if b == nil || b.size == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.shares {
		if s.gateway == gateway {
			return s
		}
	}
	s := &Share{budget: b, gateway: gateway, clients: map[string]*Client{}}
	b.shares = append(b.shares, s)
	return s
}

// alone reports whether there is no other gateway. b.mu is held.
func (s *Share) alone() bool { return len(s.budget.shares) == 1 }

// room is what the gateway may add. A gateway that is alone leaves nothing for others. b.mu is held.
func (s *Share) room() int64 {
	free := s.budget.free()
	if s.alone() {
		return free
	}
	return room(gatewayParts, free, s.used)
}

func (c *Client) room() int64 { return room(clientParts, c.of.room(), c.used) }

// Client finds the client at an address, for one more connection from there, which has to Leave.
func (s *Share) Client(addr net.Addr) *Client {
	if s == nil {
		return nil
	}
	name := AddressOf(addr)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[name]
	if c == nil {
		c = &Client{of: s, name: name}
		s.clients[name] = c
	}
	c.connections++
	return c
}

// Leave is the end of a connection.
func (c *Client) Leave() {
	if c == nil {
		return
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.connections--; c.connections == 0 {
		delete(c.of.clients, c.name)
	}
}

// AddressOf names the machine at the other end: of IPv6 the /64, which is what one customer gets.
func AddressOf(addr net.Addr) string {
	if addr == nil {
		return ""
	}
	ap, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return addr.Network() // a unix socket
	}
	ip := ap.Addr().Unmap()
	if p, err := ip.Prefix(64); err == nil && ip.Is6() {
		return p.String()
	}
	return ip.String()
}
