package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	pollPeriod  = time.Second     // between polls of the cluster
	pollTimeout = 2 * time.Second // of the answers of one node or Sentinel
	leaveAfter  = time.Minute     // since a node was last listed; then its gateway stops
	staleAfter  = 3 * time.Second // since a node was last listed; then the entry prefers other nodes
	leaveTime   = 10 * time.Second
)

// poll asks nodes, or Sentinels, for the list of nodes until the cluster shuts down.
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
	case err != nil && c.cfg.Sentinel != nil:
		c.log.Warn("no Sentinel gives a usable list of servers", "err", err)
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
		// With maintenance notifications go-redis resolves "localhost" for each client.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// pollRounds lets sessions wait for a poll that begins after they have asked.
type pollRounds struct {
	wanted chan struct{} // capacity 1

	mu    sync.Mutex
	first *member // to ask first in the next poll; nil: any
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

// await requests a poll and returns after one that began after the call, or when ctx ends. The poll asks from first,
// unless that is nil.
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
