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

	"github.com/cinch-layer/cinch/internal/gateway"
)

const (
	lookPeriod  = time.Second     // between looks at the cluster
	lookTimeout = 2 * time.Second // of one
	leaveAfter  = time.Minute     // since a node was last heard of
	unheardFor  = 3 * time.Second // since then a client that has a choice is not led to it
	leaveTime   = 10 * time.Second
)

// lookAround asks the nodes about each other until the cluster shuts down.
func (c *Cluster) lookAround(context.Context) {
	for {
		c.report(c.lookOnce())
		select {
		case <-c.ctx.Done():
			return
		case <-time.After(lookPeriod):
		case <-c.round.wanted:
		}
	}
}

func (c *Cluster) lookOnce() error {
	began := c.round.begin()
	defer c.round.end()
	return c.look(began)
}

// report logs what is new about the looks.
func (c *Cluster) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	c.mu.Lock()
	news := text != c.trouble && c.ctx.Err() == nil
	c.trouble = text
	c.mu.Unlock()
	switch {
	case !news:
	case err != nil:
		c.log.Warn("can't look at the servers as it should be", "err", err)
	default:
		c.log.Info("the servers are in sight again")
	}
}

// Why the answer of a member is not believed.
var (
	errOtherNode = errors.New("another node answers at the address")
	errStranger  = errors.New("the node knows none of the others, so it was removed, or is of another cluster")
)

// credible says whether a member still speaks for the cluster. One that was removed lives on by
// itself, or in another cluster, and must not lead anybody there.
func (c *Cluster) credible(m *member, nodes []node) error {
	others := len(c.table.Load().all) > 1
	itself := false
	for i := range nodes {
		n := &nodes[i]
		itself = itself || n.myself && n.id == m.id
		if !n.myself && c.knows(n.id) {
			others = false
		}
	}
	switch {
	case !itself:
		return errOtherNode
	case others:
		return errStranger
	}
	return nil
}

func (c *Cluster) knows(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[id] != nil
}

// look asks nodes, first the one that is given, until one has answered, and does what
// follows from that.
func (c *Cluster) look(first *member) error {
	if c.cfg.Sentinel != nil {
		return c.lookBySentinel()
	}
	var errs []error
	for _, m := range c.toAsk(first) {
		nodes, err := c.ask(c.dial(m, nil))
		if err == nil {
			err = c.credible(m, nodes)
		}
		if err == nil {
			return c.update(nodes, m.node.Load().dialHost())
		}
		errs = append(errs, fmt.Errorf("%s: %w", m.node.Load().dialHost(), err))
		if c.ctx.Err() != nil {
			return nil
		}
	}
	return c.lookBySeeds(errs)
}

func seedDial(seed gateway.Upstream) func(context.Context) (net.Conn, error) {
	seed.Stats = nil
	return seed.Dial
}

// toAsk are the members to ask, in turns: one of them may not know yet what others do.
func (c *Cluster) toAsk(first *member) []*member {
	all := slices.Clone(c.table.Load().all)
	if n := len(all); n > 1 {
		at := int(time.Now().UnixNano()/int64(lookPeriod)) % n
		all = slices.Concat(all[at:], all[:at])
	}
	if first != nil {
		all = slices.Insert(slices.DeleteFunc(all, func(m *member) bool { return m == first }), 0, first)
	}
	return all
}

// ask asks one node.
func (c *Cluster) ask(dial func(context.Context) (net.Conn, error)) ([]node, error) {
	ctx, cancel := context.WithTimeout(c.ctx, lookTimeout)
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

// update takes in what a node knows, which was reached at host.
func (c *Cluster) update(nodes []node, host string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	sortNodes(nodes)
	now := time.Now()
	var errs []error
	for i := range nodes {
		n := &nodes[i]
		if n.dialHost() == "" || n.dialHost() == "?" {
			n.ip = host // of a node that does not know its own
		}
		m := c.members[n.id]
		if m == nil {
			if n.failed && len(c.seeds.pending()) > 0 {
				continue // it may be that seed
			}
			if err := c.join(n); err != nil {
				errs = append(errs, fmt.Errorf("node %s: %w", Address(n.dialHost(), n.port), err))
				continue
			}
			m = c.members[n.id]
		}
		m.node.Store(n)
		m.seen = now
	}
	for _, m := range c.members {
		if now.Sub(m.seen) > leaveAfter {
			c.leave(m)
		}
	}
	c.tabulate()
	return errors.Join(errs...)
}

func sortNodes(nodes []node) {
	slices.SortFunc(nodes, func(a, b node) int {
		x, _ := strconv.Atoi(a.port)
		y, _ := strconv.Atoi(b.port)
		return cmp.Or(cmp.Compare(a.dialHost(), b.dialHost()), cmp.Compare(x, y))
	})
}

// tabulate puts the members' addresses into force. c.mu is held.
func (c *Cluster) tabulate() {
	t := &nodeTable{byAddress: map[string]*member{}, byPort: map[string]*member{}}
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
	now := time.Now()
	for _, m := range t.all {
		m.unheard.Store(now.Sub(m.seen) > unheardFor)
	}
	rank := func(m *member) int {
		switch n := m.node.Load(); {
		case m.unheard.Load():
			return 3
		case n.failed:
			return 2
		case !n.primary:
			return 1
		}
		return 0
	}
	slices.SortFunc(t.all, func(a, b *member) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.distance, b.distance))
	})
	c.table.Store(t)
	if c.cfg.Sentinel != nil {
		c.begun.cut(func(m *member) bool { return !m.node.Load().primary })
	}
	if c.cfg.Follower != nil {
		c.cfg.Follower.Lead(t.primaries())
	}
}

// primaries are the ids of the primaries that work, the one with slot 0 first.
func (t *nodeTable) primaries() (ids []string) {
	for _, m := range t.all {
		switch n := m.node.Load(); {
		case !n.primary || n.failed || m.unheard.Load():
		case n.leads():
			ids = slices.Insert(ids, 0, m.id)
		default:
			ids = append(ids, m.id)
		}
	}
	return ids
}

// find looks an address up as near says it. Nodes may leave their host out, or not know it.
func (t *nodeTable) find(near *member, host, port string) *member {
	if host != "" && host != "?" {
		return t.byAddress[Address(host, port)]
	}
	if near == nil {
		return nil
	}
	for _, h := range near.node.Load().hosts() {
		if m := t.byAddress[Address(h, port)]; m != nil {
			return m
		}
	}
	return t.byPort[port]
}

// rounds lets sessions wait for a look at the cluster that begins after they have asked.
type rounds struct {
	wanted chan struct{} // capacity 1

	mu    sync.Mutex
	near  *member // whom to ask
	count uint64  // of looks begun
	ended chan struct{}
}

func (r *rounds) init() {
	r.wanted = make(chan struct{}, 1)
	r.ended = make(chan struct{})
}

func (r *rounds) begin() *member {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	near := r.near
	r.near = nil
	return near
}

func (r *rounds) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.ended)
	r.ended = make(chan struct{})
}

// await has a look made soon and returns after it, or when ctx ends.
func (r *rounds) await(ctx context.Context, near *member) {
	r.mu.Lock()
	asked := r.count
	r.mu.Unlock()
	for {
		r.mu.Lock()
		if near != nil {
			r.near = near
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
