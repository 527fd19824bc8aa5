package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// member is a node with a gateway.
type member struct {
	id         string
	gateway    Gateway
	listener   net.Listener
	advertised gateway.Advertised
	distance   int // distance of its port from the entry's
	node       atomic.Pointer[node]
	lastSeen   time.Time   // time of the last answer that listed it; guarded by Cluster.mu
	stale      atomic.Bool // not listed for staleAfter: the node may have been removed
}

// nodeTable maps the addresses of nodes to members.
type nodeTable struct {
	byAddress map[string]*member
	byPort    map[string]*member // nil for a port that several members have
	portless  map[string]bool    // addresses of nodes that have no gateway since no port was free
	all       []*member          // working primaries first
}

// join creates the gateway of a node. c.mu must be held.
func (c *Cluster) join(n *node, now time.Time) error {
	m := &member{id: n.id, lastSeen: now}
	m.node.Store(n)
	if err := c.listen(m, n); err != nil {
		return err
	}
	address := net.JoinHostPort(n.dialHost(), n.port)
	m.gateway = c.cfg.New(Site{
		ID: n.id, Address: address, Policy: c.policy,
		Dial: c.dial(m, c.cfg.Stats), DialOwn: c.dial(m, nil), View: &View{c: c, member: m},
	})
	c.members[n.id] = m
	c.serving.Go(func() { c.serve(m) })
	c.log.Info("gateway started for a cluster node", "node", address, "id", n.id, "listen", m.listener.Addr().String())
	return nil
}

// listen opens a member's listener: at the port of its seed, or after those of all seeds. c.mu must be held.
func (c *Cluster) listen(m *member, n *node) (err error) {
	seed := c.seeds.indexOf(n)
	if m.listener, m.distance, err = c.ports.listen(seed); err != nil {
		return err
	}
	m.advertised = c.ports.advertisedAt(m.distance)
	if seed > 0 && m.distance != seed {
		c.log.Warn("the port of a cluster node is in use, so this gateway serves it on another port than other gateways do",
			"node", Address(n.dialHost(), n.port), "port", c.ports.at(m.distance))
	}
	return nil
}

func (c *Cluster) serve(m *member) {
	defer gateway.CatchPanic(c.log, c.cfg.Stats, func() { _ = m.listener.Close() })
	if err := m.gateway.Serve(m.listener); err != nil && !errors.Is(err, net.ErrClosed) { // leave has closed it
		c.log.Error("gateway of a cluster node failed", "id", m.id, "err", err)
	}
}

// leave ends the gateway of a node that has left, or whose port another one needs. c.mu must be held.
func (c *Cluster) leave(m *member) {
	delete(c.members, m.id)
	_ = m.listener.Close() // at once, so that another node can have the port
	c.ports.free(m.distance)
	c.log.Info("gateway stopped for a cluster node", "id", m.id, "listen", m.listener.Addr().String())
	go func() {
		defer gateway.CatchPanic(c.log, c.cfg.Stats, nil)
		ctx, cancel := context.WithTimeout(c.ctx, leaveTime)
		defer cancel()
		_ = m.gateway.Shutdown(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.cfg.Follower != nil && c.members[m.id] == nil { // it may have joined again
			c.cfg.Follower.Leave(m.id)
		}
	}()
}

func (c *Cluster) isMember(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[id] != nil
}

// update applies the answer of a node that was reached at host.
func (c *Cluster) update(nodes []node, host string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	sortNodes(nodes)
	now := time.Now()
	for i := range nodes {
		n := &nodes[i]
		if n.dialHost() == "" || n.dialHost() == "?" {
			n.ip = host // the node does not know its own address
		}
		if m := c.members[n.id]; m != nil {
			m.node.Store(n)
			m.lastSeen = now
		}
	}
	for _, m := range c.members {
		if c.cfg.Sentinel != nil && m.lastSeen.Before(now) { // not the primary, which Sentinels always list
			n := *m.node.Load()
			n.primary = false
			m.node.Store(&n)
		}
		m.stale.Store(now.Sub(m.lastSeen) > staleAfter)
		if now.Sub(m.lastSeen) > leaveAfter {
			c.leave(m)
		}
	}
	var errs []error
	for i := range nodes {
		n := &nodes[i]
		if c.members[n.id] != nil || n.failed && len(c.seeds.pending()) > 0 { // it may be a seed, with a port of its own
			continue
		}
		err := c.join(n, now)
		if err != nil && c.makeRoom(n) {
			err = c.join(n, now)
		}
		if err != nil && !c.isIdle(n) {
			errs = append(errs, fmt.Errorf("node %s: %w", Address(n.dialHost(), n.port), err))
		}
	}
	c.rebuildTable(nodes)
	return errors.Join(errs...)
}

// isIdle reports whether clients need no port of the node: it is down, and it is neither the primary of some
// slots nor the one that Sentinels name.
func (c *Cluster) isIdle(n *node) bool {
	return n.failed && len(n.slots) == 0 && (c.cfg.Sentinel == nil || !n.primary)
}

// makeRoom closes the port of a member that needs it less than n does, and reports whether it has found one.
// Sentinels list servers until SENTINEL RESET, and clusters list nodes until CLUSTER FORGET, however long they
// are down. The primary that Sentinels name also gets the port of a working replica. c.mu must be held.
func (c *Cluster) makeRoom(n *node) bool {
	if c.isIdle(n) {
		return false
	}
	first := c.cfg.Sentinel != nil && n.primary
	var least *member
	for _, m := range c.members {
		switch {
		case m.distance <= c.ports.reserved: // n can't use the ports of seeds
		case !first && !m.stale.Load() && !c.isIdle(m.node.Load()):
		case least == nil || cmp.Or(cmp.Compare(m.rank(), least.rank()), cmp.Compare(m.distance, least.distance)) > 0:
			least = m
		}
	}
	if least != nil {
		c.leave(least)
	}
	return least != nil
}

func sortNodes(nodes []node) {
	slices.SortFunc(nodes, func(a, b node) int {
		x, _ := strconv.Atoi(a.port)
		y, _ := strconv.Atoi(b.port)
		return cmp.Or(cmp.Compare(a.dialHost(), b.dialHost()), cmp.Compare(x, y))
	})
}

// rank orders members by how much clients need them. 0 is for working primaries, which they need most.
func (m *member) rank() int {
	switch n := m.node.Load(); {
	case m.stale.Load():
		return 3
	case n.failed:
		return 2
	case !n.primary:
		return 1
	}
	return 0
}

// rebuildTable rebuilds the table from the members and the nodes of the last answer. It ends the sessions at the
// entry whose node has left or, with Sentinels, is not the primary. c.mu must be held.
func (c *Cluster) rebuildTable(nodes []node) {
	t := &nodeTable{byAddress: map[string]*member{}, byPort: map[string]*member{}, portless: map[string]bool{}}
	for i := range nodes {
		if n := &nodes[i]; c.members[n.id] == nil {
			t.portless[Address(n.dialHost(), n.port)] = true
		}
	}
	for _, m := range c.members {
		n := m.node.Load()
		for _, host := range n.hosts() {
			t.byAddress[Address(host, n.port)] = m
		}
		if _, taken := t.byPort[n.port]; taken {
			m = nil
		}
		t.byPort[n.port] = m
	}
	for _, m := range c.members {
		t.all = append(t.all, m)
	}
	slices.SortFunc(t.all, func(a, b *member) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.distance, b.distance))
	})
	c.table.Store(t)
	c.entrySessions.closeIf(func(m *member) bool {
		return c.members[m.id] != m || c.cfg.Sentinel != nil && !m.node.Load().primary
	})
	if c.cfg.Follower != nil {
		c.cfg.Follower.Lead(t.primaries())
	}
}

// primaries returns the ids of the working primaries, the one with slot 0 first.
func (t *nodeTable) primaries() (ids []string) {
	for _, m := range t.all {
		switch n := m.node.Load(); {
		case !n.primary || n.failed || m.stale.Load():
		case n.hasSlotZero():
			ids = slices.Insert(ids, 0, m.id)
		default:
			ids = append(ids, m.id)
		}
	}
	return ids
}

// find looks up an address that the member from has sent; from is nil for Sentinels. Nodes may omit their own host
// or not know it.
func (t *nodeTable) find(from *member, host, port string) *member {
	if host != "" && host != "?" {
		return t.byAddress[Address(host, port)]
	}
	if from == nil {
		return nil
	}
	for _, h := range from.node.Load().hosts() {
		if m := t.byAddress[Address(h, port)]; m != nil {
			return m
		}
	}
	return t.byPort[port]
}
