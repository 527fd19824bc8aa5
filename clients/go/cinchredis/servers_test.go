package cinchredis

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/test/testenv"
	"github.com/cinch-layer/cinch/test/transcript"
)

// A server is a redis-server for one test, or a replayed transcript of one.
type server struct {
	addr  string
	plain *redis.Client // sees the stored bytes
	dicts *storeredis.Dicts
}

func startRedis(t testing.TB, args ...string) *server {
	t.Helper()
	s := &server{addr: transcript.Server(t, "tcp", func() string {
		port := freePort(t)
		start(t, testenv.Program(t, "redis-server"), append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir()}, args...)...)
		addr := "127.0.0.1:" + port
		answers(t, newClient(t, &redis.Options{Addr: addr}))
		return addr
	})}
	s.plain = newClient(t, &redis.Options{Addr: s.addr})
	s.dicts = storeredis.NewDicts(storeredis.DictsOptions{Client: s.plain})
	return s
}

// start starts a program until the end of the test.
func start(t testing.TB, path string, args ...string) {
	t.Helper()
	cmd := exec.Command(path, args...)
	log := filepath.Join(t.TempDir(), "log")
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if said, _ := os.ReadFile(log); t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(path), said)
		}
	})
}

func freePort(t testing.TB) string { return strconv.Itoa(testenv.FreePort(t)) }

func newClient(t testing.TB, o *redis.Options) *redis.Client {
	t.Helper()
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// answers waits until a server answers.
func answers(t testing.TB, c redis.UniversalClient) {
	t.Helper()
	eventually(t, "the server answers", func() bool { return c.Ping(t.Context()).Err() == nil })
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for range 9000 {
		if ok() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("never:", what)
}

// attached returns a client with Cinch.
func (s *server) attached(t testing.TB, o Options) *redis.Client {
	t.Helper()
	c := newClient(t, &redis.Options{Addr: s.addr})
	if err := Attach(t.Context(), c, o); err != nil {
		t.Fatal(err)
	}
	return c
}

// hold stores a dictionary as gateways do.
func (s *server) hold(t testing.TB, content string) *codec.Dict {
	t.Helper()
	d, err := codec.NewDict([]byte(content))
	if err == nil {
		err = s.dicts.Publish(t.Context(), d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// publish replaces a record as gateways do.
func (s *server) publish(t testing.TB, name string, document any) {
	t.Helper()
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	_, version, err := s.dicts.Record(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if next, err := s.dicts.ReplaceRecord(t.Context(), name, version, string(text)); err != nil || next == 0 {
		t.Fatal(next, err)
	}
}

// startCluster starts two primaries that share the slots.
func startCluster(t testing.TB) (nodes []*server, addrs []string) {
	t.Helper()
	slots := []int{0, 8192, 16384}
	var bus string // the last node's cluster port; the default, 10,000 above its own, may be in use by any connection
	for i := range 2 {
		bus = freePort(t)
		n := startRedis(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", bus)
		must(t, n.plain.ClusterAddSlotsRange(t.Context(), slots[i], slots[i+1]-1).Err())
		must(t, n.plain.Do(t.Context(), "cluster", "set-config-epoch", i+1).Err())
		nodes, addrs = append(nodes, n), append(addrs, n.addr)
	}
	host, port, _ := net.SplitHostPort(addrs[1])
	must(t, nodes[0].plain.Do(t.Context(), "cluster", "meet", host, port, bus).Err())
	for _, n := range nodes {
		eventually(t, "the cluster is whole", func() bool {
			all, err := n.plain.ClusterShards(t.Context()).Result()
			return err == nil && len(all) == 2
		})
	}
	for _, n := range nodes {
		eventually(t, "the cluster serves", func() bool { return n.plain.Get(t.Context(), "{06S}").Err() != nil && clusterOK(n) })
	}
	return nodes, addrs
}

func clusterOK(n *server) bool {
	info, err := n.plain.ClusterInfo(context.Background()).Result()
	return err == nil && len(info) > 0 && fmt.Sprintf("%.16s", info) == "cluster_state:ok"
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func hex(number uint32) string { return fmt.Sprintf("%08x", number) }
