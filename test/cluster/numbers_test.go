package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A rule names by its number a dictionary that all primaries already have: a gateway that starts uses it
// soon in values of all nodes.
func TestDictionaryByNumber(t *testing.T) {
	testenv.Full(t)
	nodes := testenv.Cluster(t, 3, 1)
	dict, number := dictFile(t)
	cinchSays(t, "dict", "import", "redis+cluster://"+nodes[0].Addr, dict)
	gateway := testenv.Gateway(t, testenv.GatewayConfig{
		Upstream: upstreamOf(nodes), Rules: fmt.Sprintf(`- {name: all, key: "*", setting: zstd-3@%s}`, number),
	})
	began := time.Now()
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{gateway.Addr}})
	defer client.Close()
	direct := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{nodes[0].Addr}})
	defer direct.Close()
	named := func() bool {
		for i := range 12 {
			if err := client.Set(t.Context(), fmt.Sprint("k", i), long, 0).Err(); err != nil {
				return false
			}
			stored, _ := direct.Get(t.Context(), fmt.Sprint("k", i)).Bytes()
			if h, err := envelope.ParseHeader(stored); err != nil || fmt.Sprintf("%08x", h.Dict) != number {
				return false
			}
		}
		return true
	}
	testenv.Eventually(t, "values of all nodes name it", named)
	t.Logf("after %v", time.Since(began))
	replica := connect(t, nodes[3].Addr, 2)
	testenv.Eventually(t, "a replica takes over", func() bool {
		_ = do(t, replica, "CLUSTER FAILOVER")
		time.Sleep(100 * time.Millisecond)
		return strings.HasPrefix(do(t, replica, "ROLE"), "[master")
	})
	testenv.Eventually(t, "values of all nodes name it again", named)
}
