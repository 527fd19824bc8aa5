package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

// cinchSays runs the program, which must succeed, and returns its output.
func cinchSays(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(testenv.Cinch(t), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("cinch %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

const packedKeys = 300

// Commands that access a store accept the same URLs as the gateway: nodes of a cluster, the first of which
// is down here. They visit all primaries.
func TestCommandsOnACluster(t *testing.T) {
	nodes := testenv.Cluster(t, 3, 1)
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{nodes[0].Addr}})
	defer client.Close()
	for i := range packedKeys {
		if err := client.Set(t.Context(), fmt.Sprint("k", i), long, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	url := fmt.Sprintf("redis+cluster://127.0.0.1:%d,%s,%s", testenv.FreePort(t), nodes[3].Addr, nodes[1].Addr)
	dict, number := dictFile(t)
	cinchSays(t, "dict", "import", url, dict)
	for _, n := range nodes[:3] {
		libraries, err := connect(t, n.Addr, 3).FunctionList(t.Context(), goredis.FunctionListQuery{LibraryNamePattern: "cinch_dict_" + number}).Result()
		if err != nil || len(libraries) != 1 {
			t.Errorf("%s has %d such dictionaries: %v", n.Addr, len(libraries), err)
		}
	}
	cinchSays(t, "pack", url, "--rule", "key=*,setting=zstd-3@"+number)
	for i := range packedKeys {
		if stored, _ := client.Get(t.Context(), fmt.Sprint("k", i)).Bytes(); !envelope.IsSealed(stored) {
			t.Fatalf("k%d is not sealed", i)
		}
	}
	if out := cinchSays(t, "verify", url); !strings.Contains(out, fmt.Sprint(packedKeys)) {
		t.Errorf("verify: %s", out)
	}
	if out := cinchSays(t, "dict", "ls", url, "--count"); !strings.Contains(out, number) || !strings.Contains(out, fmt.Sprint(packedKeys)) {
		t.Errorf("dict ls: %s", out)
	}
	for i := range 5 { // the node of each key does not matter
		if out := cinchSays(t, "inspect", url, fmt.Sprint("k", i), "--raw"); out != long {
			t.Errorf("inspect: %.200s", out)
		}
	}
	cinchSays(t, "unpack", url)
	for i := range packedKeys {
		if stored, _ := client.Get(t.Context(), fmt.Sprint("k", i)).Result(); stored != long {
			t.Fatalf("k%d has not come back: %.100q", i, stored)
		}
	}
}

// With Sentinels, commands use the current primary, also after a failover.
func TestCommandsWithSentinels(t *testing.T) {
	testenv.Full(t)
	servers, url := watched(t)
	direct := connect(t, servers[0].Addr, 2)
	expect(t, direct, "SET k {long}", "OK", "HSET h f {long}", "1", "WAIT 2 5000", "2")
	url = strings.Replace(url, "://", fmt.Sprintf("://127.0.0.1:%d,", testenv.FreePort(t)), 1)
	cinchSays(t, "pack", url)
	if stored, _ := direct.Get(t.Context(), "k").Bytes(); !envelope.IsSealed(stored) {
		t.Error("k is not sealed")
	}
	expect(t, direct, "SET k2 v", "OK", "WAIT 2 5000", "2")
	servers[0].Kill()
	testenv.Eventually(t, "the command finds the new primary", func() bool {
		return exec.Command(testenv.Cinch(t), "unpack", url).Run() == nil
	})
	reader := connect(t, servers[1].Addr, 2)
	testenv.Eventually(t, "the values have come back", func() bool { return do(t, reader, "GET k") == long && do(t, reader, "HGET h f") == long })
	out, err := exec.Command(testenv.Cinch(t), "verify", strings.Replace(url, "/mymaster", "/nobody", 1)).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no primary of that name") {
		t.Errorf("%v: %s", err, out)
	}
}

func dictFile(t *testing.T) (path, number string) {
	t.Helper()
	d, err := codec.NewDict([]byte(strings.Repeat("hello, sealed world; ", 20)))
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "hello.dict")
	if err := os.WriteFile(path, d.Content(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, fmt.Sprintf("%08x", d.Number())
}
