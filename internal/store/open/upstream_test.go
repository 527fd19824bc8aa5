package open

import (
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/store/storetest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A gateway's access to the pause needs the rights that leases need, and no others.
func TestGatewayPause(t *testing.T) {
	server := testenv.Redis(t)
	c := goredis.NewClient(&goredis.Options{Addr: server.Addr})
	defer c.Close()
	if err := c.Do(t.Context(), "acl", "setuser", "packs", "on", ">pw", "resetchannels", "~cinch:pack:*", "-@all", "+set", "+get", "+del", "+pexpire", "+pttl").Err(); err != nil {
		t.Fatal(err)
	}
	up := upstreamAt(t, "redis://packs:pw@"+server.Addr)
	p, end := GatewayPause(up, up.Dial)
	defer end()
	storetest.Pause(t, p)
}

// In a cluster the pause is found from any node that answers.
func TestGatewayClusterPause(t *testing.T) {
	nodes := testenv.Cluster(t, 3, 0)
	for _, first := range []string{nodes[2].Addr, "127.0.0.1:1"} {
		p, end := GatewayClusterPause([]endpoint.Upstream{upstreamAt(t, "redis://"+first), upstreamAt(t, "redis://"+nodes[1].Addr)})
		storetest.Pause(t, p)
		end()
	}
}

func upstreamAt(t *testing.T, url string) endpoint.Upstream {
	t.Helper()
	up, err := endpoint.ParseUpstream(url, config.RedisPort)
	if err != nil {
		t.Fatal(err)
	}
	return up
}
