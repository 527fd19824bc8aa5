package pack

import (
	"bytes"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

// clusterKeys are keys written by one client, with their expected values.
type clusterKeys struct {
	t    *testing.T
	node *goredis.Client // any node: all have all dictionaries
	c    *goredis.ClusterClient
	want []string
	next int
}

const clusterKeyCount = 1200

func (k *clusterKeys) key(i int) string { return fmt.Sprint("key:", i) }

func expiryOf(i int) int64 { return 4102444800000 + int64(i) }

func newClusterKeys(t *testing.T, nodes []*testenv.RedisServer) *clusterKeys {
	o := &goredis.ClusterOptions{MaxRedirects: 16}
	for _, n := range nodes[:3] {
		o.Addrs = append(o.Addrs, n.Addr)
	}
	k := &clusterKeys{t: t, node: connect(t, nodes[0].Addr), c: goredis.NewClusterClient(o), want: make([]string, clusterKeyCount)}
	t.Cleanup(func() { k.c.Close() })
	for i := range k.want {
		k.want[i] = document(i, 400)
		must(t, k.c.Do(t.Context(), "set", k.key(i), k.want[i], "pxat", expiryOf(i)).Err())
	}
	return k
}

// writeDuring keeps writing, one value every few milliseconds, while work runs.
func (k *clusterKeys) writeDuring(work func()) {
	stop := make(chan struct{})
	var writer sync.WaitGroup
	began := k.next
	writer.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			i := k.next * 7 % len(k.want)
			v := document(k.next+len(k.want), 500)
			k.next++
			if err := k.c.Set(k.t.Context(), k.key(i), v, goredis.KeepTTL).Err(); err != nil {
				k.t.Errorf("%s: %v", k.key(i), err)
				return
			}
			k.want[i] = v
		}
	})
	defer func() {
		close(stop)
		writer.Wait()
		k.t.Logf("%d values written meanwhile", k.next-began)
	}()
	work()
}

// waitSealed waits until a packer has compressed some value.
func (k *clusterKeys) waitSealed() {
	k.t.Helper()
	testenv.Eventually(k.t, "something is sealed", func() bool {
		all, err := k.c.Pipelined(k.t.Context(), func(p goredis.Pipeliner) error {
			for i := range k.want {
				p.Get(k.t.Context(), k.key(i))
			}
			return nil
		})
		must(k.t, err)
		return slices.ContainsFunc(all, func(c goredis.Cmder) bool {
			stored, _ := c.(*goredis.StringCmd).Bytes()
			return envelope.IsSealed(stored)
		})
	})
}

// check reads all keys. Each value must be the one written last, and all must be compressed or all plain.
func (k *clusterKeys) check(how string, sealed bool) {
	s, t := storeSealer(k.node), k.t
	t.Helper()
	others := 0
	values, expiries := make([]*goredis.StringCmd, len(k.want)), make([]*goredis.DurationCmd, len(k.want))
	_, err := k.c.Pipelined(t.Context(), func(p goredis.Pipeliner) error {
		for i := range k.want {
			values[i], expiries[i] = p.Get(t.Context(), k.key(i)), p.PExpireTime(t.Context(), k.key(i))
		}
		return nil
	})
	must(t, err)
	for i, want := range k.want {
		stored, err := values[i].Bytes()
		must(t, err)
		got, err := s.Open(nil, stored)
		if err != nil || string(got) != want {
			t.Fatalf("%s: %s is %.50q (%v), want %.50q", how, k.key(i), got, err, want)
		}
		// MIGRATE itself delays expiries by its own duration.
		late := expiries[i].Val() - time.Duration(expiryOf(i))*time.Millisecond
		if late < 0 || late > time.Minute {
			t.Fatalf("%s: %s expires %v late", how, k.key(i), late)
		}
		if envelope.IsSealed(stored) != sealed {
			others++
		}
	}
	if others > 0 {
		t.Errorf("%s: %d of %d are not", how, others, len(k.want))
	}
}

// TestCluster packs and unpacks while slots move, a primary fails over and clients write.
func TestCluster(t *testing.T) {
	t.Parallel()
	nodes := testenv.Cluster(t, 3, 3)
	keys := newClusterKeys(t, nodes)
	url := "redis://" + nodes[0].Addr
	failover := func(to *testenv.RedisServer) {
		t.Helper()
		c := connect(t, to.Addr)
		must(t, c.Do(t.Context(), "cluster", "failover").Err())
		testenv.Eventually(t, "the replica takes over", func() bool {
			return strings.Contains(c.Info(t.Context(), "replication").Val(), "role:master")
		})
	}
	keys.writeDuring(func() {
		packing := start(t, "pack", url, plainRule, "--keys-per-second", "200")
		keys.waitSealed() // the pass has begun, and will take seconds
		testenv.MoveSlots(t, nodes[0], nodes[1], 0, 60)
		failover(nodes[5])
		testenv.MoveSlots(t, nodes[1], nodes[0], 6000, 6020)
		if out := packing(); !strings.Contains(out, "slots") {
			t.Errorf("nothing is said of slots that moved:\n%s", out)
		}
	})
	expect(t, 0, []string{"pack", url, plainRule}) // values that were written directly meanwhile are plain
	keys.check("packed", true)

	keys.writeDuring(func() {
		unpacking := start(t, "unpack", url, "--keys-per-second", "600")
		testenv.MoveSlots(t, nodes[1], nodes[0], 0, 20)
		failover(nodes[2])
		unpacking()
	})
	keys.check("unpacked", false)
}

// start starts the program and returns a function that waits until it succeeds.
func start(t *testing.T, args ...string) (wait func() string) {
	t.Helper()
	cmd := exec.Command(testenv.Cinch(t), append(args, "--no-backoff")...)
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
