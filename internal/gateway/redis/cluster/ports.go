package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
)

// Several gateways behind one address must agree which port leads to which node, whenever they were started
// and whatever nodes have joined since: a client that one of them has sent to a port may reach another one
// there. They agree by the order of their seeds. A seed's node is the one that answers at its address (nodes
// may know themselves by other addresses), or that has this address.

// identifyPeriod is the time between attempts to find out which nodes the seeds are.
const identifyPeriod = 5 * time.Second

// pollSeeds asks all seeds and uses the answer with most slots: a seed may not be part of the cluster yet
// or any more. If none answers, it returns errs and the seeds' errors.
func (c *Cluster) pollSeeds(errs []error) error {
	var best []node
	host, most := "", -1
	answers, failed := c.askSeeds(c.cfg.Seeds)
	for i, seed := range c.cfg.Seeds {
		if failed[i] != nil {
			errs = append(errs, fmt.Errorf("%s: %w", seed.Address, failed[i]))
			continue
		}
		if n := slotsOf(answers[i]); n > most {
			best, host, most = answers[i], seed.Host, n
		}
	}
	if most < 0 {
		return errors.Join(errs...)
	}
	return c.update(best, host)
}

func slotsOf(nodes []node) (n int) {
	for i := range nodes {
		for _, r := range nodes[i].slots {
			n += r.last - r.first + 1
		}
	}
	return n
}

// identifySeeds asks the seeds for their ids until all are known.
func (c *Cluster) identifySeeds(context.Context) {
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-time.After(identifyPeriod):
		}
		pending := c.seeds.pending()
		if len(pending) == 0 {
			return
		}
		_, _ = c.askSeeds(pending) // polls log errors
	}
}

// askSeeds asks seeds for CLUSTER NODES and records their ids.
func (c *Cluster) askSeeds(seeds []endpoint.Upstream) (answers [][]node, errs []error) {
	answers, errs = make([][]node, len(seeds)), make([]error, len(seeds))
	var all sync.WaitGroup
	for i, seed := range seeds {
		all.Go(func() {
			defer gateway.CatchPanic(c.log, c.cfg.Stats, func() { errs[i] = gateway.ErrPanicked })
			if answers[i], errs[i] = c.ask(seed.Dial); errs[i] == nil {
				c.seeds.set(seed.Address, answers[i])
			}
		})
	}
	all.Wait()
	return answers, errs
}

// seeds is the order of nodes that several gateways share.
type seeds struct {
	at []endpoint.Upstream

	mu  sync.Mutex
	ids []string // of their nodes; "": unknown
}

func newSeeds(at []endpoint.Upstream) seeds { return seeds{at: at, ids: make([]string, len(at))} }

func (s *seeds) count() int { return len(s.at) }

// set records which node a seed is, from the seed's answer.
func (s *seeds) set(address string, nodes []node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(nodes, func(n node) bool { return n.myself })
	for i := range s.ids {
		if at >= 0 && s.at[i].Address == address {
			s.ids[i] = nodes[at].id
		}
	}
}

// pending returns the seeds whose nodes are unknown.
func (s *seeds) pending() (seeds []endpoint.Upstream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, id := range s.ids {
		if id == "" {
			seeds = append(seeds, s.at[i])
		}
	}
	return seeds
}

// indexOf returns which seed a node is, counted from one, 0 for none.
func (s *seeds) indexOf(n *node) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.ids, n.id); i >= 0 {
		return i + 1
	}
	return 1 + slices.IndexFunc(s.at, func(seed endpoint.Upstream) bool {
		_, port, _ := net.SplitHostPort(seed.Address)
		return port == n.port && slices.ContainsFunc(n.hosts(), func(host string) bool { return strings.EqualFold(host, seed.Host) })
	})
}

// ports assigns the ports that follow the entry's. Each is identified by its distance from that.
type ports struct {
	open      func(address string) (net.Listener, error)
	advertise string           // host:port at which clients reach the entry; "": its address
	entry     net.Addr         // nil until it is serving
	proxied   *gateway.Proxied // the entry's listener, if connections begin with PROXY headers
	reserved  int              // the first distances, reserved for seeds
	most      int
	taken     map[int]bool
}

var errNoPort = errors.New("no port is free for another node: increase nodes")

// begin records the entry's listener.
func (p *ports) begin(l net.Listener) {
	p.entry = l.Addr()
	p.proxied, _ = l.(*gateway.Proxied)
}

// listen opens the port of a seed, or the first free one after those of all seeds.
func (p *ports) listen(seed int) (l net.Listener, distance int, err error) {
	host, port, err := net.SplitHostPort(p.entry.String())
	first, noNumber := strconv.Atoi(port)
	if err != nil || noNumber != nil {
		return nil, 0, fmt.Errorf("listen behind %s: not host:port", p.entry)
	}
	err = errNoPort
	for _, d := range p.distances(seed) {
		if l, err = p.open(net.JoinHostPort(host, strconv.Itoa(first+d))); err == nil {
			p.taken[d] = true
			return p.proxied.Wrap(l), d, nil
		}
	}
	return nil, 0, err
}

// distances returns the free distances for a node, best first: its seed's, then those of no seed.
func (p *ports) distances(seed int) (free []int) {
	if seed > 0 && !p.taken[seed] {
		free = append(free, seed)
	}
	for d := p.reserved + 1; d <= p.most; d++ {
		if !p.taken[d] {
			free = append(free, d)
		}
	}
	return free
}

func (p *ports) free(distance int) { delete(p.taken, distance) }

// at returns the port at a distance.
func (p *ports) at(distance int) int {
	_, port, _ := net.SplitHostPort(p.entry.String())
	first, _ := strconv.Atoi(port)
	return first + distance
}

// advertisedAt returns the address at which clients reach the listener at a distance.
func (p *ports) advertisedAt(distance int) gateway.Advertised {
	a, _ := gateway.ParseAdvertised(p.advertise, p.entry)
	if p.proxied != nil && p.advertise == "" {
		a.Host = "" // clients know the balancer's host, which is in its headers
	}
	if port, err := strconv.Atoi(a.Port); err == nil {
		a.Port = strconv.Itoa(port + distance)
	}
	return a
}
