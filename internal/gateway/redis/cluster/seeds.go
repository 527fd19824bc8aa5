package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
)

// Several gateways behind one address must agree which port leads to which node, whenever they were started
// and whatever nodes have joined since: a client that one gateway sends to a port may reach another gateway
// there. They agree by the order of their seeds. A seed's node is the one that answers at the seed's address
// (nodes may know themselves by other addresses), or that has this address.

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

// seeds holds the nodes whose order several gateways share.
type seeds struct {
	at []endpoint.Upstream

	mu  sync.Mutex
	ids []string // of the seeds' nodes, in the order of at; "": unknown
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
