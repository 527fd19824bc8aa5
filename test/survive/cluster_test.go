package survive

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/envelope"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/test/testenv"
)

// cluster is a cluster whose values are packed with a dictionary.
type cluster struct {
	t     *testing.T
	nodes []*testenv.RedisServer
	c     *goredis.ClusterClient
	d     *codec.Dict
	pack  []string // command line of the packer
}

const clusterKeys = 1500

func clusterKey(i int) string { return fmt.Sprint("cluster:", i) }

func newCluster(t *testing.T, replicas int) *cluster {
	t.Parallel() // mostly waiting
	x := &cluster{t: t, nodes: testenv.Cluster(t, 3, replicas), d: newDict(t, "cluster")}
	x.c = goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{x.nodes[0].Addr, x.nodes[2].Addr}, MaxRedirects: 16})
	t.Cleanup(func() { x.c.Close() })
	file := filepath.Join(t.TempDir(), "cluster.dict")
	must(t, dict.Save(file, x.d))
	x.pack = []string{"pack", "redis://" + x.nodes[1].Addr, "--to", fmt.Sprintf("zstd-3@%08x", x.d.Number()), "--dict", file, "--no-backoff"}
	return x
}

// write replaces all values by new, plain ones.
func (x *cluster) write(round int) {
	x.t.Helper()
	_, err := x.c.Pipelined(x.t.Context(), func(p goredis.Pipeliner) error {
		for i := range clusterKeys {
			p.Set(x.t.Context(), clusterKey(i), valueOf(clusterKey(i), round), 0)
		}
		return nil
	})
	must(x.t, err)
}

// packing starts the packer at a rate at which it takes some seconds, and waits until it has packed a
// value.
func (x *cluster) packing() *packing {
	x.t.Helper()
	p := &packing{t: x.t, cmd: exec.Command(testenv.Cinch(x.t), append(x.pack, "--keys-per-second", "600")...)}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	must(x.t, p.cmd.Start())
	testenv.Eventually(x.t, "something is packed", func() bool {
		for i := range clusterKeys {
			if x.naming(x.c.Get(x.t.Context(), clusterKey(i)).Val()) {
				return true
			}
		}
		return false
	})
	return p
}

// packing is a running packer.
type packing struct {
	t   *testing.T
	cmd *exec.Cmd
	out bytes.Buffer
}

// pause stops the packer with SIGSTOP until resume is called.
func (p *packing) pause() (resume func()) {
	p.t.Helper()
	must(p.t, p.cmd.Process.Signal(syscall.SIGSTOP))
	return func() { must(p.t, p.cmd.Process.Signal(syscall.SIGCONT)) }
}

// wait waits until the packer succeeds and returns its output.
func (p *packing) wait() string {
	p.t.Helper()
	if err := p.cmd.Wait(); err != nil {
		p.t.Fatalf("%v\n%s", err, &p.out)
	}
	return p.out.String()
}

func (x *cluster) naming(stored string) bool { return dictOf(stored) == x.d.Number() }

// check reads each node's values with the dictionaries of that node alone. All keys must exist, and at
// least naming of them must name the dictionary.
func (x *cluster) check(nodes []*testenv.RedisServer, keys, naming int) {
	x.t.Helper()
	gotKeys, gotNaming := 0, 0
	for _, n := range nodes {
		c, s := connect(x.t, n.Addr), opener(reader(x.t, n.Addr))
		it := c.Scan(x.t.Context(), 0, "cluster:*", 1000).Iterator()
		for it.Next(x.t.Context()) {
			stored, err := c.Get(x.t.Context(), it.Val()).Result()
			must(x.t, err)
			plain, err := s.Open(nil, []byte(stored))
			if err != nil || !isValueOf(it.Val(), string(plain)) {
				x.t.Errorf("node %s: %s is %.60q, %v", n.Addr, it.Val(), plain, err)
				break
			}
			gotKeys++
			if x.naming(stored) {
				gotNaming++
			}
		}
		must(x.t, it.Err())
	}
	if !x.t.Failed() && (gotKeys != keys || gotNaming < naming) {
		x.t.Errorf("%d keys, %d of them name the dictionary; want %d and %d", gotKeys, gotNaming, keys, naming)
	}
}

// backup returns a function that restores a node to its current data.
func (x *cluster) backup(n *testenv.RedisServer) (restore func()) {
	restored := backup(x.t, n)
	return func() {
		x.t.Helper()
		restored()
		testenv.AwaitCluster(x.t, x.nodes, len(x.nodes), 0)
	}
}

func backup(t *testing.T, n *testenv.RedisServer) (restore func()) {
	t.Helper()
	must(t, connect(t, n.Addr).Save(t.Context()).Err())
	file := filepath.Join(n.Dir, "dump.rdb")
	snapshot, err := os.ReadFile(file)
	must(t, err)
	return func() {
		t.Helper()
		n.Kill()
		must(t, os.WriteFile(file, snapshot, 0o600))
		must(t, n.Restart())
	}
}

func TestShardRestoredFromOlderBackup(t *testing.T) {
	t.Run("between two runs of the packer", func(t *testing.T) {
		x := newCluster(t, 0)
		x.write(0)
		older := x.backup(x.nodes[1])
		command(t, 0, x.pack...)
		x.check(x.nodes, clusterKeys, clusterKeys)
		newer := x.backup(x.nodes[1])
		older()
		if holds(t, x.nodes[1].Addr, x.d) {
			t.Fatal("the dictionary was in the older backup")
		}
		x.check(x.nodes, clusterKeys, clusterKeys/2)
		if out := command(t, 12, "verify", "redis://"+x.nodes[1].Addr); !strings.Contains(out, x.nodes[1].Addr+" lacks dictionary") {
			t.Errorf("verify says nothing of the shard without the dictionary:\n%s", out)
		}
		command(t, 0, x.pack...)
		command(t, 0, "verify", "redis://"+x.nodes[1].Addr)
		x.check(x.nodes, clusterKeys, clusterKeys)
		newer() // its values name the dictionary, which is in the backup too
		x.check(x.nodes, clusterKeys, clusterKeys)
	})
	t.Run("while the packer runs", func(t *testing.T) {
		testenv.Full(t)
		x := newCluster(t, 0)
		x.write(0)
		older := x.backup(x.nodes[1])
		p := x.packing()
		older()
		x.check(x.nodes, clusterKeys, 1)
		p.wait()
		x.check(x.nodes, clusterKeys, clusterKeys/2)
		if !holds(t, x.nodes[1].Addr, x.d) {
			t.Error("the dictionary is not in the shard that was restored")
		}
		command(t, 0, x.pack...)
		x.check(x.nodes, clusterKeys, clusterKeys)
	})
}

// joined adds a node that joins the cluster after the dictionary was made.
func (x *cluster) joined(join func(n *testenv.RedisServer)) *testenv.RedisServer {
	x.t.Helper()
	n := testenv.ClusterNode(x.t)
	join(n)
	x.nodes = append(x.nodes, n)
	testenv.AwaitCluster(x.t, x.nodes, len(x.nodes), 0)
	return n
}

// meet adds a node as a tool does that does not copy functions.
func (x *cluster) meet(n *testenv.RedisServer) { testenv.Meet(x.t, x.nodes[0], n) }

func (x *cluster) move(to *testenv.RedisServer) { testenv.MoveSlots(x.t, x.nodes[0], to, 0, 1500) }

// TestPrimaryDiesWhilePacking checks that the packer continues with the replica that takes over. The dead
// node restarts empty as that one's replica, so that the packer need not wait long for it.
func TestPrimaryDiesWhilePacking(t *testing.T) {
	testenv.Full(t)
	x := newCluster(t, 3)
	x.write(0)
	p := x.packing()
	x.nodes[0].Kill()
	c := connect(t, x.nodes[3].Addr)
	testenv.Eventually(t, "the replica takes over", func() bool {
		return strings.Contains(c.Info(t.Context(), "replication").Val(), "role:master")
	})
	must(t, x.nodes[0].Restart())
	for _, n := range x.nodes { // no more failovers are wanted, so a slow node should not be marked as failed
		must(t, connect(t, n.Addr).ConfigSet(t.Context(), "cluster-node-timeout", "10000").Err())
	}
	p.wait()
	testenv.AwaitCluster(t, x.nodes, 3, 3)
	x.check(x.primaries(), clusterKeys, clusterKeys)
}

// primaries returns the current primaries: on a busy machine others than the dead one may have been
// replaced too.
func (x *cluster) primaries() (all []*testenv.RedisServer) {
	x.t.Helper()
	for _, n := range x.nodes {
		info, err := connect(x.t, n.Addr).Info(x.t.Context(), "replication").Result()
		must(x.t, err)
		if strings.Contains(info, "role:master") {
			all = append(all, n)
		}
	}
	return all
}

func TestSlotsMovedToNewNode(t *testing.T) {
	t.Run("redis-cli adds it", func(t *testing.T) {
		x := newCluster(t, 0)
		x.write(0)
		command(t, 0, x.pack...)
		n := x.joined(func(n *testenv.RedisServer) {
			// redis-cli copies functions.
			out, err := exec.Command(testenv.Program(t, "redis-cli"), "--cluster", "add-node", n.Addr, x.nodes[0].Addr).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		})
		if !holds(t, n.Addr, x.d) {
			t.Error("the dictionary was not copied")
		}
		x.move(n)
		x.check(x.nodes, clusterKeys, clusterKeys)
	})
	t.Run("another tool adds it", func(t *testing.T) {
		testenv.Full(t)
		x := newCluster(t, 0)
		x.write(0)
		command(t, 0, x.pack...)
		n := x.joined(x.meet)
		x.move(n)
		if holds(t, n.Addr, x.d) {
			t.Fatal("who has put the dictionary there?")
		}
		out := command(t, 12, "verify", "redis://"+x.nodes[0].Addr)
		if !strings.Contains(out, n.Addr) || !strings.Contains(out, fmt.Sprintf("%08x", x.d.Number())) || !strings.Contains(out, "cinch dict sync") {
			t.Errorf("verify says nothing of it:\n%s", out)
		}
		y := newDict(t, "archived")
		publish(t, x.nodes[1].Addr, y)
		must(t, reader(t, x.nodes[1].Addr).Archive(t.Context(), y.Number()))
		command(t, 0, "dict", "sync", "redis://"+x.nodes[2].Addr)
		for _, n := range x.nodes {
			infos, err := reader(t, n.Addr).List(t.Context())
			must(t, err)
			states := map[uint32]storeredis.State{}
			for _, i := range infos {
				states[i.Number] = i.State
			}
			if len(infos) != 2 || states[x.d.Number()] != storeredis.Live || states[y.Number()] != storeredis.Archived {
				t.Errorf("%s holds %v", n.Addr, states)
			}
		}
		if out := command(t, 0, "dict", "sync", "redis://"+x.nodes[0].Addr); !strings.Contains(out, "nothing to do: each of 4 primaries") {
			t.Errorf("a second time:\n%s", out)
		}
		x.check(x.nodes, clusterKeys, clusterKeys)
		command(t, 0, "verify", "redis://"+x.nodes[0].Addr)
	})
	t.Run("while the packer runs", func(t *testing.T) {
		testenv.Full(t)
		x := newCluster(t, 0)
		x.write(0)
		p := x.packing()
		resume := p.pause() // otherwise the packer may finish before the node has joined
		n := x.joined(x.meet)
		testenv.MoveSlots(t, x.nodes[0], n, 0, 0)
		resume()
		testenv.MoveSlots(t, x.nodes[0], n, 1, 1500)
		p.wait()
		x.check(x.nodes, clusterKeys, clusterKeys)
		stored := 0
		for i := range clusterKeys {
			if envelope.IsSealed([]byte(x.c.Get(t.Context(), clusterKey(i)).Val())) {
				stored++
			}
		}
		t.Logf("%d sealed", stored)
	})
}
