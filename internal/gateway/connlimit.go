package gateway

import (
	"math"
	"net"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// ConnLimit limits how many client connections one listener has at a time, and shares them between the
// addresses that clients connect from. An address may hold all of them while no other address connects. At the
// limit, a new connection displaces a connection of the address that holds the most, if its own address holds at
// least two fewer. Otherwise it is refused. (With a difference of one, two addresses would displace each other's
// connections for ever.)
//
// Connections in a handshake are displaced first, then connections whose client has not logged in, then the
// one that has moved no byte for longest. A displaced connection no longer counts, and its Displace method
// closes it.
//
// The same happens when the process runs short of file descriptors, with the connections of all ConnLimits together.
//
// Addresses are IP addresses; IPv6 addresses count by their /64. All connections to unix sockets have one
// address. The zero value has no limit except that of file descriptors.
//
//	limit := &ConnLimit{Max: 100}
//	slot := limit.Admit(c.RemoteAddr(), conn, false)
//	if slot == nil { refuse(c) }
//	defer slot.Leave()
//
// Listener does this for a server that has no Server of this package, such as an http.Server.
type ConnLimit struct {
	Max int // 0: no limit
	// DescriptorPart limits Max to that part of the process's file descriptors (8: an eighth); 0: no such
	// limit.
	DescriptorPart uint64
	// Renew lets an address that may not displace another address's connection displace its own connection
	// that has been quiet for longest. It is for servers whose clients connect again without losing anything.
	Renew bool

	// Guarded by limitedConns.mu.
	open  int
	peers map[string]*peerConns
}

// LimitedConn is a connection that a ConnLimit has admitted. Stage and LastActive are called with a lock held and must
// not wait. Displace is called without it, at most once, perhaps from another connection's goroutine; it must not wait
// either.
type LimitedConn interface {
	Stage() ConnStage
	LastActive() time.Time
	Displace()
}

// ConnStage tells how far a client has got, and so how much it loses if its connection is displaced.
type ConnStage int

// Stages, in the order in which connections are displaced.
const (
	StageHandshake ConnStage = iota
	StageUnauthenticated
	StageServed
)

// peerConns are the connections of one address under one limit.
type peerConns struct {
	address string
	slots   []*ConnSlot
}

// ConnSlot is one connection's place under a ConnLimit.
type ConnSlot struct {
	limit *ConnLimit
	conn  LimitedConn
	peer  *peerConns // nil: left, or displaced
	index int        // in peer.slots
}

// limitedConns holds the limits that have connections. One mutex guards all limits, since a shortage of
// descriptors concerns all of them.
var limitedConns = struct {
	mu     sync.Mutex
	limits map[*ConnLimit]struct{}
}{limits: map[*ConnLimit]struct{}{}}

// Admit counts the connection c from an address. If the limit is reached, or short is set because the process is
// short of file descriptors, it displaces another connection. It returns nil if c is refused.
func (l *ConnLimit) Admit(from net.Addr, c LimitedConn, short bool) *ConnSlot {
	slot, victim := l.admit(memory.AddressOf(from), c, short)
	if victim != nil {
		victim.conn.Displace()
	}
	return slot
}

// admit is Admit, except that it returns the connection to displace; nil: none.
func (l *ConnLimit) admit(address string, c LimitedConn, short bool) (slot, victim *ConnSlot) {
	limitedConns.mu.Lock()
	defer limitedConns.mu.Unlock()
	most := l.max()
	full := most > 0 && l.open >= most
	switch {
	case full:
		victim = displaceable(address, l)
	case short:
		all := make([]*ConnLimit, 0, len(limitedConns.limits))
		for other := range limitedConns.limits {
			all = append(all, other)
		}
		victim = displaceable(address, all...)
	}
	if victim == nil && l.Renew && (full || short) {
		victim = quietest(address, l)
	}
	if victim == nil && (full || short) {
		return nil, nil
	}
	if victim != nil {
		victim.remove()
	}
	slot = &ConnSlot{limit: l, conn: c}
	slot.add(address)
	return slot, victim
}

// max returns Max, or less if the process may open too few file descriptors.
func (l *ConnLimit) max() int {
	if l.DescriptorPart == 0 {
		return l.Max
	}
	if n := endpoint.DescriptorLimit(); n > 0 {
		return min(l.Max, int(min(max(n/l.DescriptorPart, 1), math.MaxInt32)))
	}
	return l.Max
}

// displaceable returns the connection under limits that a connection from address may displace; nil: none.
// limitedConns.mu must be held.
func displaceable(address string, limits ...*ConnLimit) *ConnSlot {
	held := map[string]int{}
	most := ""
	for _, l := range limits {
		for a, p := range l.peers {
			held[a] += len(p.slots)
			if held[a] > held[most] {
				most = a
			}
		}
	}
	if held[most] < held[address]+2 {
		return nil
	}
	return quietest(most, limits...)
}

// quietest returns the connection of an address to displace first; nil: it has none. limitedConns.mu must be
// held.
func quietest(address string, limits ...*ConnLimit) *ConnSlot {
	var victim *ConnSlot
	var stage ConnStage
	var active time.Time
	for _, l := range limits {
		p := l.peers[address]
		if p == nil {
			continue
		}
		for _, s := range p.slots {
			st, at := s.conn.Stage(), s.conn.LastActive()
			if victim == nil || st < stage || st == stage && at.Before(active) {
				victim, stage, active = s, st, at
			}
		}
	}
	return victim
}

// Leave stops counting the connection. It may be called again, and on a nil slot.
func (s *ConnSlot) Leave() {
	if s == nil {
		return
	}
	limitedConns.mu.Lock()
	s.remove()
	limitedConns.mu.Unlock()
}

// add counts the slot. limitedConns.mu must be held.
func (s *ConnSlot) add(address string) {
	l := s.limit
	p := l.peers[address]
	if p == nil {
		p = &peerConns{address: address}
		if l.peers == nil {
			l.peers = map[string]*peerConns{}
		}
		l.peers[address] = p
	}
	s.peer, s.index = p, len(p.slots)
	p.slots = append(p.slots, s)
	l.open++
	limitedConns.limits[l] = struct{}{}
}

// remove undoes add, once. limitedConns.mu must be held.
func (s *ConnSlot) remove() {
	p, l := s.peer, s.limit
	if p == nil {
		return
	}
	last := len(p.slots) - 1
	p.slots[s.index] = p.slots[last]
	p.slots[s.index].index = s.index
	p.slots[last] = nil
	p.slots = p.slots[:last]
	s.peer = nil
	if last == 0 {
		delete(l.peers, p.address)
	}
	if l.open--; l.open == 0 {
		delete(limitedConns.limits, l)
	}
}

// Listener returns a listener that accepts the connections that l admits. It closes all others after calling
// refused (may be nil) with them. Such listeners may also use the file descriptors that Server leaves free,
// except lastDescriptors.
func (l *ConnLimit) Listener(inner net.Listener, refused func(net.Conn)) net.Listener {
	return &limitedListener{inner, l, refused}
}

type limitedListener struct {
	net.Listener
	limit   *ConnLimit
	refused func(net.Conn)
}

// lastDescriptors is the number of endpoint.ReservedDescriptors that ConnLimit.Listener leaves free.
const lastDescriptors = 8

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &listenedConn{Conn: inner}
		c.touch()
		c.slot = l.limit.Admit(inner.RemoteAddr(), c, endpoint.DescriptorShortage(inner, lastDescriptors, nil) != nil)
		if c.slot != nil {
			return c, nil
		}
		if l.refused != nil {
			l.refused(inner)
		}
		_ = inner.Close()
	}
}

// listenedConn is a connection of a limitedListener.
type listenedConn struct {
	net.Conn
	slot *ConnSlot
	activity
}

func (c *listenedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.touch()
	return n, err
}

func (c *listenedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.touch()
	return n, err
}

func (c *listenedConn) Close() error {
	c.slot.Leave()
	return c.Conn.Close()
}

// Stage implements LimitedConn. Whether the client has logged in is unknown here.
func (c *listenedConn) Stage() ConnStage { return StageServed }

// Displace implements LimitedConn.
func (c *listenedConn) Displace() { _ = c.Conn.Close() }
