package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

const (
	pollPeriod  = time.Second     // between polls of the cluster
	pollTimeout = 2 * time.Second // of one poll
	leaveAfter  = time.Minute     // since the node was last seen
	staleAfter  = 3 * time.Second // since the node was last seen; then the entry prefers other nodes
	leaveTime   = 10 * time.Second
)

// poll polls the nodes about each other until the cluster shuts down.
func (c *Cluster) poll(context.Context) {
	for {
		c.report(c.pollOnce())
		select {
		case <-c.ctx.Done():
			return
		case <-time.After(pollPeriod):
		case <-c.pollRounds.wanted:
		}
	}
}

func (c *Cluster) pollOnce() error {
	began := c.pollRounds.begin()
	defer c.pollRounds.end()
	return c.refresh(began)
}

// report logs changes in the result of polls.
func (c *Cluster) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	c.mu.Lock()
	news := text != c.pollError && c.ctx.Err() == nil
	c.pollError = text
	c.mu.Unlock()
	switch {
	case !news:
	case err != nil:
		c.log.Warn("can't read the list of nodes", "err", err)
	default:
		c.log.Info("the list of nodes can be read again")
	}
}

// Reasons not to trust a member's answer.
var (
	errOtherNode = errors.New("another node answers at the address")
	errNotMember = errors.New("the node knows none of the other nodes: it was removed or belongs to another cluster")
)

// checkAnswer returns an error if another node has answered at a member's address, or if the member has been removed
// from the cluster. A removed node keeps running by itself, or in another cluster, and clients must not be led there.
func (c *Cluster) checkAnswer(m *member, nodes []node) error {
	others := len(c.table.Load().all) > 1
	itself := false
	for i := range nodes {
		n := &nodes[i]
		itself = itself || n.myself && n.id == m.id
		if !n.myself && c.isMember(n.id) {
			others = false
		}
	}
	switch {
	case !itself:
		return errOtherNode
	case others:
		return errNotMember
	}
	return nil
}

func (c *Cluster) isMember(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[id] != nil
}

// refresh asks nodes, starting with first, until one has answered, and updates the members from its answer.
func (c *Cluster) refresh(first *member) error {
	if c.cfg.Sentinel != nil {
		return c.pollSentinels()
	}
	var errs []error
	for _, m := range c.pollOrder(first) {
		nodes, err := c.ask(c.dial(m, nil))
		if err == nil {
			err = c.checkAnswer(m, nodes)
		}
		if err == nil {
			return c.update(nodes, m.node.Load().dialHost())
		}
		errs = append(errs, fmt.Errorf("%s: %w", m.node.Load().dialHost(), err))
		if c.ctx.Err() != nil {
			return nil
		}
	}
	return c.pollSeeds(errs)
}

// pollOrder returns the members in the order in which to ask them. The members take turns at being first, since one
// may not know yet what others know.
func (c *Cluster) pollOrder(first *member) []*member {
	all := slices.Clone(c.table.Load().all)
	if n := len(all); n > 1 {
		at := int(time.Now().UnixNano()/int64(pollPeriod)) % n
		all = slices.Concat(all[at:], all[:at])
	}
	if first != nil {
		all = slices.Insert(slices.DeleteFunc(all, func(m *member) bool { return m == first }), 0, first)
	}
	return all
}

// ask asks one node for CLUSTER NODES.
func (c *Cluster) ask(dial func(context.Context) (net.Conn, error)) ([]node, error) {
	ctx, cancel := context.WithTimeout(c.ctx, pollTimeout)
	defer cancel()
	client := goredis.NewClient(askOptions(dial, c.cfg.Upstream.User, c.cfg.Upstream.Password))
	defer client.Close()
	text, err := client.ClusterNodes(ctx).Result()
	if err != nil {
		return nil, err
	}
	return parseNodes(text)
}

func askOptions(dial func(context.Context) (net.Conn, error), user, password string) *goredis.Options {
	return &goredis.Options{
		Dialer:   func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		Username: user, Password: password,
		Protocol: 2, PoolSize: 1, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, ContextTimeoutEnabled: true,
	}
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
		if c.cfg.Sentinel != nil && m.lastSeen.Before(now) { // the primary is another server, since Sentinels always list it
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
		if c.members[n.id] != nil || n.failed && len(c.seeds.pending()) > 0 { // it may be one of the pending seeds
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

// find looks up an address that the member from has sent. Nodes may omit their own host or not know it.
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

// pollRounds lets sessions wait for a poll that begins after they have asked.
type pollRounds struct {
	wanted chan struct{} // capacity 1

	mu    sync.Mutex
	first *member // the member to ask
	count uint64  // polls begun
	ended chan struct{}
}

func (r *pollRounds) init() {
	r.wanted = make(chan struct{}, 1)
	r.ended = make(chan struct{})
}

func (r *pollRounds) begin() *member {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	from := r.first
	r.first = nil
	return from
}

func (r *pollRounds) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.ended)
	r.ended = make(chan struct{})
}

// await requests a poll and returns after one that began after the call, or when ctx ends.
func (r *pollRounds) await(ctx context.Context, from *member) {
	r.mu.Lock()
	asked := r.count
	r.mu.Unlock()
	for {
		r.mu.Lock()
		if from != nil {
			r.first = from
		}
		ended, count := r.ended, r.count
		r.mu.Unlock()
		select {
		case r.wanted <- struct{}{}:
		default:
		}
		select {
		case <-ctx.Done():
			return
		case <-ended:
		}
		if count > asked {
			return
		}
	}
}
