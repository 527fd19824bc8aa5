package cinchredis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

const watched = "m" // the Sentinel's name of the primary

// startSentinel starts one Sentinel that watches a primary and its replica, and returns its address.
func startSentinel(t *testing.T, primary *server) string {
	t.Helper()
	host, port, _ := net.SplitHostPort(primary.addr)
	conf := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s 1\nsentinel down-after-milliseconds %[1]s 500\nsentinel failover-timeout %[1]s 3000\n", watched, host, port)
	path := filepath.Join(t.TempDir(), "sentinel.conf")
	must(t, os.WriteFile(path, []byte(conf), 0o600))
	own := freePort(t)
	start(t, testenv.Program(t, "redis-server"), path, "--sentinel", "--port", own, "--bind", "127.0.0.1", "--dir", t.TempDir())
	addr := net.JoinHostPort("127.0.0.1", own)
	s := redis.NewSentinelClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = s.Close() })
	eventually(t, "the Sentinel knows the replica", func() bool {
		replicas, err := s.Replicas(t.Context(), watched).Result()
		return err == nil && len(replicas) == 1 && replicas[0]["master-link-status"] == "ok"
	})
	return addr
}

// startWatched starts a primary with a policy, its replica, and their Sentinel.
func startWatched(t *testing.T) (primary, replica *server, number uint32, sentinel string) {
	t.Helper()
	primary, d := withPolicy(t)
	host, port, _ := net.SplitHostPort(primary.addr)
	replica = startRedis(t, "--replicaof", host+" "+port)
	return primary, replica, d.Number(), startSentinel(t, primary)
}

func failover(t *testing.T, o *redis.FailoverOptions) *redis.Client {
	t.Helper()
	c := redis.NewFailoverClient(o)
	t.Cleanup(func() { _ = c.Close() })
	must(t, Attach(t.Context(), c, Options{Refresh: 50 * time.Millisecond}))
	return c
}

// The primary ends while clients write and read, and a replica takes over: no client gets an envelope, and
// values continue to be sealed.
func TestFailover(t *testing.T) {
	primary, replica, number, sentinel := startWatched(t)
	c := failover(t, &redis.FailoverOptions{MasterName: watched, SentinelAddrs: []string{sentinel}})
	must(t, c.Set(t.Context(), "menu:1", menu, 0).Err())
	isStored(t, primary.plain.Get(t.Context(), "menu:1").Val(), number)
	eventually(t, "the replica has it", func() bool { return replica.plain.Exists(t.Context(), "menu:1").Val() == 1 })

	ended, end := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for i := range 4 {
		workers.Go(func() { setsAndGets(t, c, fmt.Sprint("menu:worker:", i), ended) })
	}
	_ = primary.plain.ShutdownNoSave(t.Context())
	eventually(t, "writes go to the replica", func() bool {
		return c.Set(t.Context(), "menu:2", menu, 0).Err() == nil && replica.plain.Exists(t.Context(), "menu:2").Val() == 1
	})
	end()
	workers.Wait()

	isStored(t, replica.plain.Get(t.Context(), "menu:2").Val(), number)
	if got, err := c.Get(t.Context(), "menu:1").Result(); got != menu {
		t.Errorf("%q, %v", got, err)
	}
	next := replica.hold(t, strings.Repeat(menu, 3))
	replica.inForce(t, next)
	eventually(t, "the new primary's policy holds", func() bool {
		must(t, c.Set(t.Context(), "menu:3", menu, 0).Err())
		return dictionaryOf(t, replica, "menu:3") == next.Number()
	})
}

// setsAndGets writes and reads until ended. Servers may be away, but a value that is read must be correct.
func setsAndGets(t *testing.T, c *redis.Client, key string, ended context.Context) {
	for ended.Err() == nil {
		_ = c.Set(ended, key, menu, 0).Err()
		got, err := c.Get(ended, key).Result()
		for _, ours := range []error{ErrRefused, ErrDamaged, envelope.ErrDictMissing, ErrUnknownCodec} {
			if errors.Is(err, ours) {
				t.Error(err)
			}
		}
		if err == nil && got != menu {
			t.Errorf("%q", got)
		}
	}
}

// A client from NewFailoverClient follows the rules for its database. A client from NewFailoverClusterClient with a DB
// is refused, since its database can't be determined.
func TestSentinelDatabases(t *testing.T) {
	primary, _, number, sentinel := startWatched(t)
	inTwo := maps.Clone(rules[len(rules)-1]) // menus
	inTwo["space"] = "2"
	primary.publish(t, "policy", object{"format": 1, "rules": []object{inTwo}})
	o := redis.FailoverOptions{MasterName: watched, SentinelAddrs: []string{sentinel}}
	must(t, failover(t, &o).Set(t.Context(), "menu:1", menu, 0).Err())
	if got := primary.plain.Get(t.Context(), "menu:1").Val(); got != menu {
		t.Errorf("%q", got)
	}
	o.DB = 2
	must(t, failover(t, &o).Set(t.Context(), "menu:2", menu, 0).Err())
	second := newClient(t, &redis.Options{Addr: primary.addr, DB: 2})
	isStored(t, second.Get(t.Context(), "menu:2").Val(), number)

	all := redis.NewFailoverClusterClient(&o)
	defer all.Close()
	if err := Attach(t.Context(), all, Options{}); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
}

// A client that also reads from replicas opens their values.
func TestFailoverCluster(t *testing.T) {
	primary, replica, number, sentinel := startWatched(t)
	c := redis.NewFailoverClusterClient(&redis.FailoverOptions{MasterName: watched, SentinelAddrs: []string{sentinel}, RouteRandomly: true})
	defer c.Close()
	must(t, Attach(t.Context(), c, Options{}))
	must(t, c.Set(t.Context(), "menu:1", menu, 0).Err())
	isStored(t, primary.plain.Get(t.Context(), "menu:1").Val(), number)
	eventually(t, "the replica has it", func() bool { return replica.plain.Exists(t.Context(), "menu:1").Val() == 1 })
	for range 20 {
		if got, err := c.Get(t.Context(), "menu:1").Result(); got != menu {
			t.Errorf("%q, %v", got, err)
		}
	}
}
