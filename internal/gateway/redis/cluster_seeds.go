package redis

import (
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

// identify asks seeds who they are until all are known.
func (c *Cluster) identify() {
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-time.After(identifyPeriod):
		}
		if !c.askSeeds() {
			return
		}
	}
}

// askSeeds asks those that are not known, and reports whether any is left.
func (c *Cluster) askSeeds() (left bool) {
	var all sync.WaitGroup
	for _, i := range c.pendingSeeds() {
		all.Go(func() {
			nodes, err := c.ask(seedDial(c.cfg.Seeds[i]))
			at := slices.IndexFunc(nodes, func(n clusterNode) bool { return n.myself })
			if err != nil || at < 0 {
				return
			}
			c.mu.Lock()
			c.seeded[i] = nodes[at].id
			c.mu.Unlock()
		})
	}
	all.Wait()
	return len(c.pendingSeeds()) > 0
}

func (c *Cluster) pendingSeeds() (seeds []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, id := range c.seeded {
		if id == "" {
			seeds = append(seeds, i)
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
