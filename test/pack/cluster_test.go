package pack

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/test/testenv"
)

const slotsEnd = 16383

// startCluster starts three primaries and three replicas.
func startCluster(t *testing.T) []*testenv.RedisServer {
	t.Helper()
	var nodes []*testenv.RedisServer
	for range 6 {
		nodes = append(nodes, testenv.Redis(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "1500",
			"--cluster-port", strconv.Itoa(testenv.FreePort(t)), "--repl-diskless-sync-delay", "0"))
	}
	first := connect(t, nodes[0].Addr)
	for i, n := range nodes {
		c := connect(t, n.Addr)
		if i < 3 {
			must(t, c.ClusterAddSlotsRange(t.Context(), i*slotsEnd/3+min(i, 1), (i+1)*slotsEnd/3).Err())
		}
		if i > 0 {
			port := c.ConfigGet(t.Context(), "cluster-port").Val()["cluster-port"]
			must(t, first.Do(t.Context(), "cluster", "meet", "127.0.0.1", n.Port, port).Err())
		}
	}
	for i := 3; i < 6; i++ {
		c, id := connect(t, nodes[i].Addr), nodeID(t, nodes[i-3])
		eventually(t, "the nodes know each other", func() bool { return c.ClusterReplicate(t.Context(), id).Err() == nil })
	}
	for _, n := range nodes {
		c := connect(t, n.Addr)
		eventually(t, "the cluster is up", func() bool {
			return strings.Contains(c.ClusterInfo(t.Context()).Val(), "cluster_state:ok") &&
				strings.Count(c.ClusterNodes(t.Context()).Val(), "slave ") == 3
		})
	}
	return nodes
}

func nodeID(t *testing.T, n *testenv.RedisServer) string {
	t.Helper()
	id, err := connect(t, n.Addr).Do(t.Context(), "cluster", "myid").Text()
	must(t, err)
	return id
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

// moveSlots moves slots with their keys, while clients go on.
func moveSlots(t *testing.T, from, to *testenv.RedisServer, first, last int) {
	source, target := connect(t, from.Addr), connect(t, to.Addr)
	ctx, fromID, toID := t.Context(), nodeID(t, from), nodeID(t, to)
	for slot := first; slot <= last; slot++ {
		must(t, target.Do(ctx, "cluster", "setslot", slot, "importing", fromID).Err())
		must(t, source.Do(ctx, "cluster", "setslot", slot, "migrating", toID).Err())
		for {
			keys := source.ClusterGetKeysInSlot(ctx, slot, 100).Val()
			if len(keys) == 0 {
				break
			}
			args := []any{"migrate", "127.0.0.1", to.Port, "", 0, 5000, "keys"}
			for _, k := range keys {
				args = append(args, k)
			}
			must(t, source.Do(ctx, args...).Err())
		}
		must(t, target.Do(ctx, "cluster", "setslot", slot, "node", toID).Err())
		must(t, source.Do(ctx, "cluster", "setslot", slot, "node", toID).Err())
	}
}

// TestCluster packs and unpacks while slots move, a primary fails over and clients write.
func TestCluster(t *testing.T) {
	nodes := startCluster(t)
	c := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{nodes[0].Addr, nodes[1].Addr, nodes[2].Addr}, MaxRedirects: 16})
	defer c.Close()
	const keys = 3000
	want := make([]string, keys)
	key := func(i int) string { return fmt.Sprint("key:", i) }
	for i := range keys {
		want[i] = document(i, 400)
		must(t, c.Do(t.Context(), "set", key(i), want[i], "pxat", 4102444800000+int64(i)).Err())
	}
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			i := n * 7 % keys
			v := document(n+keys, 500)
			if err := c.Set(t.Context(), key(i), v, goredis.KeepTTL).Err(); err != nil {
				t.Errorf("%s: %v", key(i), err)
				return
			}
			want[i] = v
		}
	})
	url := "redis://" + nodes[0].Addr
	check := func(how string, needSealed bool) {
		s := newSealer(nil)
		plain := 0
		for i := range keys {
			stored, err := c.Get(t.Context(), key(i)).Bytes()
			must(t, err)
			got, err := s.Open(nil, stored)
			if err != nil || string(got) != want[i] {
				t.Fatalf("%s: %s is %.50q (%v), want %.50q", how, key(i), got, err, want[i])
			}
			// MIGRATE itself moves expiries, by as long as it takes.
			late := c.PExpireTime(t.Context(), key(i)).Val() - time.Duration(4102444800000+int64(i))*time.Millisecond
			if late < 0 || late > 5*time.Second {
				t.Fatalf("%s: %s expires %v late", how, key(i), late)
			}
			if !cinch.IsSealed(stored) {
				plain++
			}
		}
		if needSealed && plain > 0 || !needSealed && plain != keys {
			t.Errorf("%s: %d of %d are plain", how, plain, keys)
		}
	}

	packing := start(t, "pack", url, "--keys-per-second", "1500")
	moveSlots(t, nodes[0], nodes[1], 0, 60)
	must(t, connect(t, nodes[5].Addr).Do(t.Context(), "cluster", "failover").Err())
	moveSlots(t, nodes[1], nodes[0], 6000, 6020)
	out := packing()
	if !strings.Contains(out, "slots") {
		t.Errorf("nothing is said of slots that moved:\n%s", out)
	}
	close(stop)
	writer.Wait()
	expect(t, 0, []string{"pack", url})
	check("packed", true)

	unpacking := start(t, "unpack", url, "--keys-per-second", "5000")
	moveSlots(t, nodes[1], nodes[0], 0, 20)
	unpacking()
	check("unpacked", false)
	must(t, c.ForEachMaster(t.Context(), func(ctx context.Context, m *goredis.Client) error { return m.Ping(ctx).Err() }))
}

// start runs the program and returns what waits for its good end.
func start(t *testing.T, args ...string) (wait func() string) {
	t.Helper()
	cmd := exec.Command(testenv.Cinch(t), args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	return func() string {
		t.Helper()
		if err := cmd.Wait(); err != nil {
			t.Fatalf("cinch %s: %v\n%s", strings.Join(args, " "), err, out.String())
		}
		return out.String()
	}
}
