package memory

import (
	"net"
	"net/netip"
	"sync"
)

// These constants are ratios of the bytes that a holder may have to the bytes that are then still free. With a ratio
// of 1 a single connection gets half, and the next one half of the rest; with 3 an address gets three quarters. So
// something is always left for the next holder, and the number of holders need not be known. When a share has become
// too small for a message, there is still the reserve.
const (
	gatewayParts    = 3 // a gateway, of the process's budget
	clientParts     = 3 // the connections from one address, of their gateway's share
	connectionParts = 1 // a connection, of its address's part
)

// Room returns how many more bytes a holder of used bytes may take when free bytes are free. It then holds at most
// parts times the bytes that remain free.
func Room(parts, free, used int64) int64 { return (parts*free - used) / (parts + 1) }

// Share is one gateway's part of a budget. A nil Share has no limit.
type Share struct {
	budget  *Budget
	gateway string

	// Guarded by budget.mu.
	used     int64     // bytes taken from the shared part of the budget
	promised int64     // bytes of the reserve that are set aside for its accounts
	waiters  []*waiter // ordered by their due time
	scan     uint64    // number of the last scan of the waiters

	mu      sync.Mutex
	clients map[string]*Client
}

// Client is the part of a gateway's share that the connections from one address have. A nil Client has no
// limit.
type Client struct {
	of          *Share
	name        string
	used        int64 // bytes; guarded by budget.mu
	promised    int64 // bytes of the reserve that are set aside for its accounts; guarded by budget.mu
	scan        uint64
	looks       [2]int // number of its waiters seen in that scan: those with large claims, and those with small ones
	connections int    // guarded by of.mu
}

// Share returns the share of the named gateway, always the same for a name; nil if the budget has no limit.
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

// alone reports whether there is no other gateway. budget.mu must be held.
func (s *Share) alone() bool { return len(s.budget.shares) == 1 }

// room returns how many more bytes the gateway may take. A single gateway need not leave any for others.
// budget.mu must be held.
func (s *Share) room() int64 {
	free := s.budget.free()
	if s.alone() {
		return free
	}
	return Room(gatewayParts, free, s.used)
}

func (c *Client) room() int64 { return Room(clientParts, c.of.room(), c.used) }

// Client returns the client at an address, for one more connection from there. The caller must call Leave
// when the connection ends.
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

// Leave removes one connection from the client's count.
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

// AddressOf returns a name for the machine at the other end: its IPv4 address, or the /64 of its IPv6 address, since
// providers assign at least a /64 to each customer.
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
