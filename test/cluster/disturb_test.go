package cluster

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

// clusterState tracks the roles in a cluster of three primaries with a replica each. It starts with the
// slots shared evenly.
type clusterState struct {
	t                   *testing.T
	nodes               []*testenv.RedisServer
	primaries, replicas []*testenv.RedisServer
	owners              map[int]int // index of the primary that owns each slot that was moved

	moves, failovers, kills int
}

func newClusterState(t *testing.T, nodes []*testenv.RedisServer) *clusterState {
	return &clusterState{t: t, nodes: nodes, owners: map[int]int{}, primaries: slices.Clone(nodes[:3]), replicas: slices.Clone(nodes[3:])}
}

// moveSlot moves the slot of a key to the next primary.
func (c *clusterState) moveSlot(key string) {
	slot := slotOf(c.t, connect(c.t, c.primaries[0].Addr, 2), key)
	from, known := c.owners[slot]
	if !known {
		from = slot * 3 / 16384
	}
	to := (from + 1) % 3
	testenv.MoveSlots(c.t, c.primaries[from], c.primaries[to], slot, slot)
	c.owners[slot] = to
	c.moves++
}

// takeOver makes the replica of a primary the primary, without loss.
func (c *clusterState) takeOver(at int) {
	c.t.Helper()
	primary, replica := c.primaries[at], c.replicas[at]
	r := connect(c.t, replica.Addr, 2)
	testenv.Eventually(c.t, "the replica takes over", func() bool {
		if role := do(c.t, r, "ROLE"); strings.HasPrefix(role, "[master") {
			return true
		}
		_ = do(c.t, r, "CLUSTER FAILOVER")
		time.Sleep(200 * time.Millisecond)
		return false
	})
	c.primaries[at], c.replicas[at] = replica, primary
	c.follows(at)
	c.failovers++
}

// kill ends a primary with SIGKILL. Everything that it has acknowledged must be on its replica before,
// which takes a moment without writes: pause and resume stop and start the writers. They meet the dead
// primary, its replica takes over, and it restarts as a replica.
func (c *clusterState) kill(at int, pause, resume func()) {
	c.t.Helper()
	primary, replica := c.primaries[at], c.replicas[at]
	pause()
	testenv.Eventually(c.t, "the replica has everything", func() bool {
		return offset(c.t, primary, "master_repl_offset") == offset(c.t, replica, "slave_repl_offset")
	})
	primary.Kill()
	resume()
	r := connect(c.t, replica.Addr, 2)
	testenv.Eventually(c.t, "the replica of the killed primary takes over", func() bool { return strings.HasPrefix(do(c.t, r, "ROLE"), "[master") })
	if err := primary.Restart(); err != nil {
		c.t.Fatal(err)
	}
	c.primaries[at], c.replicas[at] = replica, primary
	c.follows(at)
	c.kills++
}

// follows waits until a replica has caught up, and all nodes see a complete cluster.
func (c *clusterState) follows(at int) {
	c.t.Helper()
	r := connect(c.t, c.replicas[at].Addr, 2)
	testenv.Eventually(c.t, "the old primary follows", func() bool { return strings.Contains(do(c.t, r, "ROLE"), "connected") })
	testenv.AwaitCluster(c.t, c.nodes, 3, 3)
}

func offset(t *testing.T, s *testenv.RedisServer, field string) int {
	info := do(t, connect(t, s.Addr, 2), "INFO replication")
	_, rest, _ := strings.Cut(info, field+":")
	digits, _, _ := strings.Cut(rest, "\r")
	n, err := strconv.Atoi(digits)
	if err != nil {
		t.Fatalf("%s: %v", field, err)
	}
	return n
}

// disturb moves slots, has replicas take over and kills primaries until ctx ends.
func (c *clusterState) disturb(ctx context.Context, pause, resume func()) {
	for i := 0; ctx.Err() == nil || c.kills == 0; i++ {
		c.moveSlot(fmt.Sprintf("{w%d}", i%8))
		switch i % 8 {
		case 3:
			c.takeOver(i / 8 % 3)
		case 5:
			c.kill((i/8+1)%3, pause, resume)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
