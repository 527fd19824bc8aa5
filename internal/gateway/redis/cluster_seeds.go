package redis

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// Several gateways behind one address have to agree which port leads to which node, whenever they were
// started and whatever nodes have joined since: a client that one of them has sent to a port may find
// another behind it. What they agree on is the order of their seeds. A seed's node is the one that
// answers at its address (nodes may know themselves by others), or that has it.

// identifyPeriod is between attempts to find out which nodes seeds are.
const identifyPeriod = 5 * time.Second

// lookBySeeds asks all seeds, and believes the one that knows of most slots: a seed may be no part of the
// cluster, any more or yet. It also fails for the reasons given.
func (c *Cluster) lookBySeeds(errs []error) error {
	var best []clusterNode
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

func slotsOf(nodes []clusterNode) (n int) {
	for i := range nodes {
		for _, r := range nodes[i].slots {
			n += r.last - r.first + 1
		}
	}
	return n
}

// identify asks seeds who they are until all are known.
func (c *Cluster) identify() {
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-time.After(identifyPeriod):
		}
		pending := c.pendingSeeds()
		if len(pending) == 0 {
			return
		}
		_, _ = c.askSeeds(pending) // looks log what is wrong
	}
}

// askSeeds asks what they know, and who they are.
func (c *Cluster) askSeeds(seeds []gateway.Upstream) (answers [][]clusterNode, errs []error) {
	answers, errs = make([][]clusterNode, len(seeds)), make([]error, len(seeds))
	var all sync.WaitGroup
	for i, seed := range seeds {
		all.Go(func() {
			if answers[i], errs[i] = c.ask(seedDial(seed)); errs[i] == nil {
				c.setSeed(seed.Address, answers[i])
			}
		})
	}
	all.Wait()
	return answers, errs
}

func (c *Cluster) setSeed(address string, nodes []clusterNode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.IndexFunc(nodes, func(n clusterNode) bool { return n.myself })
	for i := range c.seeded {
		if at >= 0 && c.cfg.Seeds[i].Address == address {
			c.seeded[i] = nodes[at].id
		}
	}
}

func (c *Cluster) pendingSeeds() (seeds []gateway.Upstream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, id := range c.seeded {
		if id == "" {
			seeds = append(seeds, c.cfg.Seeds[i])
		}
	}
	return seeds
}

// isSeedPending reports that a seed's node is not known. c.mu is held.
func (c *Cluster) isSeedPending() bool { return slices.Contains(c.seeded, "") }

// seedOf says which seed a node is, counted from one, 0 for none. c.mu is held.
func (c *Cluster) seedOf(n *clusterNode) int {
	if i := slices.Index(c.seeded, n.id); i >= 0 {
		return i + 1
	}
	if len(c.seeded) == 0 {
		return 0
	}
	return 1 + slices.IndexFunc(c.cfg.Seeds, func(seed gateway.Upstream) bool {
		_, port, _ := net.SplitHostPort(seed.Address)
		return port == n.port && slices.ContainsFunc(n.hosts(), func(host string) bool { return strings.EqualFold(host, seed.Host) })
	})
}

// distances are those from the entry's port that a node may get, the best first: seed's, or one that is
// no seed's. c.mu is held.
func (c *Cluster) distances(seed int) (free []int) {
	if seed > 0 && !c.ports[seed] {
		free = append(free, seed)
	}
	for d := len(c.seeded) + 1; d <= c.cfg.Nodes; d++ {
		if !c.ports[d] {
			free = append(free, d)
		}
	}
	return free
}
