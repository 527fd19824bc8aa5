package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
)

// SentinelConfig makes a Cluster of the servers that Sentinels watch. LISTEN leads to the current primary,
// the following ports to each server. Clients of the primary are disconnected when another server takes over.
// Clients that ask Sentinels do so at a listener whose answers have the gateways' addresses.
type SentinelConfig struct {
	Sentinels      []endpoint.Upstream // their credentials are not used
	User, Password string              // for the Sentinels, for the gateway's own requests
	Master         string              // the Sentinels' name of the primary
	Listener       net.Listener        // where clients ask; nil: none. Cluster.Serve serves it
	New            func(Site) Gateway  // makes the gateway for clients that ask
}

// sentinelAnswer holds the servers that a Sentinel lists for a name.
type sentinelAnswer struct {
	nodes []node
	epoch uint64 // "config-epoch", which each failover raises
	host  string // of the Sentinel
}

// errOldEpoch is the error for a Sentinel that was cut off or overloaded during a failover, and still names the former
// primary.
var errOldEpoch = errors.New("it does not know of the last failover yet")

// pollSentinels asks the Sentinels and updates the members from the newest answer.
func (c *Cluster) pollSentinels() error {
	a, err := c.newestAnswer(func(up endpoint.Upstream) (sentinelAnswer, error) { return c.askSentinel(up.Host, up.Dial) })
	if err != nil {
		return err
	}
	c.epoch = a.epoch
	return c.update(a.nodes, a.host)
}

// newestAnswer asks the Sentinels, in order, until one knows of the last failover. After SENTINEL MONITOR epochs begin
// low again. So a lower epoch is accepted if most Sentinels answer and all of them have lower ones.
func (c *Cluster) newestAnswer(ask func(endpoint.Upstream) (sentinelAnswer, error)) (newest sentinelAnswer, err error) {
	all := c.cfg.Sentinel.Sentinels
	var errs []error
	answered := 0
	for _, up := range all {
		a, err := ask(up)
		switch {
		case c.ctx.Err() != nil:
			return a, c.ctx.Err()
		case err != nil:
			errs = append(errs, fmt.Errorf("sentinel %s: %w", up.Address, err))
			continue
		case a.epoch >= c.epoch:
			return a, nil
		}
		errs = append(errs, fmt.Errorf("sentinel %s: %w", up.Address, errOldEpoch))
		if answered++; answered == 1 || a.epoch > newest.epoch {
			newest = a
		}
	}
	if 2*answered > len(all) {
		return newest, nil
	}
	return newest, errors.Join(errs...)
}

func (c *Cluster) askSentinel(host string, dial func(context.Context) (net.Conn, error)) (a sentinelAnswer, err error) {
	ctx, cancel := context.WithTimeout(c.ctx, pollTimeout)
	defer cancel()
	s := c.cfg.Sentinel
	client := goredis.NewSentinelClient(askOptions(dial, s.User, s.Password))
	defer client.Close()
	master, err := client.Master(ctx, s.Master).Result()
	if err != nil {
		return a, fmt.Errorf("%s: %w", s.Master, err)
	}
	replicas, err := client.Replicas(ctx, s.Master).Result()
	if err != nil {
		return a, fmt.Errorf("%s: %w", s.Master, err)
	}
	primary := serverNode(master)
	primary.primary = true
	if err := c.checkRole(ctx, primary); err != nil {
		return a, err
	}
	a.host, a.nodes = host, []node{primary}
	a.epoch, _ = strconv.ParseUint(master["config-epoch"], 10, 64)
	for _, r := range replicas {
		if n := serverNode(r); n.id != primary.id {
			a.nodes = append(a.nodes, n)
		}
	}
	return a, nil
}

// serverNode returns a node from a Sentinel's description. Its address is its id.
func serverNode(fields map[string]string) node {
	n := node{ip: fields["ip"], port: fields["port"]}
	n.id = Address(n.ip, n.port)
	flags := fields["flags"]
	n.failed = strings.Contains(flags, "_down") || strings.Contains(flags, "disconnected")
	return n
}

var errNotPrimary = errors.New("the server that Sentinel reports as primary is not a primary")

// checkRole checks that a new primary has that role, since a Sentinel's information may be old. If the server
// can't be asked, checkRole accepts it.
func (c *Cluster) checkRole(ctx context.Context, n node) error {
	for _, m := range c.table.Load().all {
		if m.id == n.id && m.node.Load().primary {
			return nil
		}
	}
	m := &member{}
	m.node.Store(&n)
	client := goredis.NewClient(askOptions(c.dial(m, nil), c.cfg.Upstream.User, c.cfg.Upstream.Password))
	defer client.Close()
	role, err := client.Do(ctx, "ROLE").Slice()
	if err == nil && len(role) > 0 && role[0] != "master" {
		return fmt.Errorf("%w: %s", errNotPrimary, n.id)
	}
	return nil
}

// watchSentinels requests a poll as soon as a Sentinel reports another primary.
func (c *Cluster) watchSentinels(context.Context) {
	for i := 0; c.ctx.Err() == nil; i++ {
		s := c.cfg.Sentinel
		up := s.Sentinels[i%len(s.Sentinels)]
		c.watchSentinel(goredis.NewClient(askOptions(up.Dial, s.User, s.Password)))
		select {
		case <-c.ctx.Done():
		case <-time.After(pollPeriod):
		}
	}
}

func (c *Cluster) watchSentinel(client *goredis.Client) {
	defer client.Close()
	sub := client.Subscribe(c.ctx, "+switch-master")
	defer sub.Close()
	for {
		if _, err := sub.ReceiveMessage(c.ctx); err != nil {
			return
		}
		select {
		case c.pollRounds.wanted <- struct{}{}:
		default:
		}
	}
}

// locate returns the address at which clients reach the server that the member from calls host:port. A server of the
// Sentinels for which no port was free counts as being at the entry: clients must not be sent past the gateways.
func (c *Cluster) locate(from *member, host, port string) (a gateway.Advertised, ok bool) {
	t := c.table.Load()
	if m := t.find(from, host, port); m != nil {
		return c.addressOf(m), true
	}
	if c.cfg.Sentinel != nil && t.portless[Address(host, port)] {
		return c.ports.advertisedAt(0), true
	}
	return gateway.Advertised{}, false
}

// addressOf returns the address at which clients reach a member. With Sentinels, that of the primary is the entry.
func (c *Cluster) addressOf(m *member) gateway.Advertised {
	if c.cfg.Sentinel != nil && m.node.Load().primary {
		return c.ports.advertisedAt(0)
	}
	return m.advertised
}

// serveSentinel serves clients that ask for the primary, unless Shutdown has begun.
func (c *Cluster) serveSentinel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sentinelGateway == nil || c.closed {
		return
	}
	c.serving.Go(func() {
		defer gateway.CatchPanic(c.log, c.cfg.Stats, func() { _ = c.cfg.Sentinel.Listener.Close() })
		if err := c.sentinelGateway.Serve(c.cfg.Sentinel.Listener); err != nil {
			c.log.Error("the listener for Sentinel clients failed", "err", err)
		}
	})
}

// DialPrimary connects to the primary that the Sentinels name. The connection is Cinch's own, not a client's.
func (c *Cluster) DialPrimary(ctx context.Context) (net.Conn, error) {
	for _, m := range c.candidates() {
		return c.dial(m, nil)(ctx)
	}
	return nil, fmt.Errorf("%w: no primary is known for %s", endpoint.ErrUnreachable, c.cfg.Sentinel.Master)
}

// sentinelTime limits an attempt to connect to one of several Sentinels: a host that is off drops what is sent
// to it, and clients give up after a few seconds.
const sentinelTime = time.Second

// dialSentinel connects to the first Sentinel that it reaches, beginning with the one that was reached last.
func (c *Cluster) dialSentinel(ctx context.Context) (conn net.Conn, err error) {
	all := c.cfg.Sentinel.Sentinels
	first := int(c.sentinel.Load())
	for i := range all {
		at := (first + i) % len(all)
		up := all[at]
		if len(all) > 1 {
			up.Timeout = sentinelTime
		}
		if conn, err = gateway.Dial(ctx, up, c.cfg.Stats); err == nil {
			c.sentinel.Store(int32(at))
			return conn, nil
		}
	}
	return nil, err
}
