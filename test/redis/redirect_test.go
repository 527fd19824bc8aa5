package redis

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/testenv"
)

// TestRedirectByReplicas checks redirects by Valkey's replicas of clients that support them. Through
// gateways clients are redirected to the primary's gateway, or nowhere if there is none.
func TestRedirectByReplicas(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, l testenv.RedisLine) {
		primary := l.Start(t)
		replica := l.Start(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(primary.Port), "--repl-diskless-sync-delay", "0")
		direct := redirected(t, replica.Addr)
		if direct == "" {
			t.Skip("its replicas redirect nobody")
		}
		t.Run("alone", func(t *testing.T) {
			alone := testenv.Gateway(t, testenv.GatewayConfig{Upstream: replica.Addr})
			if got := redirected(t, alone.Addr); got != "" {
				t.Errorf("sent to %s, past the gateway", got)
			}
		})
		t.Run("with Sentinels", func(t *testing.T) {
			sentinels := testenv.Sentinels(t, 1, "mymaster", primary, 1)
			g := testenv.Gateway(t, testenv.GatewayConfig{Upstream: "redis+sentinel://" + sentinels[0].Addr + "/mymaster"})
			ports := gatewaysByRole(t, g)
			got := redirected(t, ports["slave"])
			if got != g.Addr {
				t.Errorf("sent to %q, direct %s; that of the primary is %s", got, direct, g.Addr)
			}
		})
	})
}

// redirected returns the address to which a replica redirects a client, for a read and for a guarded
// command; "" if it does not.
func redirected(t *testing.T, addr string) string {
	t.Helper()
	conn := speak(t, addr, 2)
	if got := do(t, conn, "CLIENT CAPA redirect"); strings.HasPrefix(got, "error: ERR unknown") {
		return ""
	}
	var to string
	testenv.Eventually(t, "the replica has synchronised", func() bool {
		answer := do(t, conn, "GET k")
		to, _ = strings.CutPrefix(answer, "error: REDIRECT ")
		return to != answer || answer == "error: redis: nil"
	})
	if to == "error: redis: nil" {
		return ""
	}
	for _, line := range []string{"SET k {long}", "APPEND k x", "STRLEN k", "SETRANGE k 1 x"} {
		expect(t, conn, line, "error: REDIRECT "+to)
	}
	return to
}

// gatewaysByRole returns a gateway's ports by the role of the server behind them: with Sentinels, each port
// after the first belongs to one server.
func gatewaysByRole(t *testing.T, g *testenv.GatewayServer) map[string]string {
	t.Helper()
	host, port, _ := strings.Cut(g.Addr, ":")
	first, _ := strconv.Atoi(port)
	ports := map[string]string{}
	testenv.Eventually(t, "each server has a port", func() bool {
		for i := 1; i <= 2; i++ {
			addr := fmt.Sprint(host, ":", first+i)
			c := goredis.NewClient(&goredis.Options{Addr: addr, Protocol: 2, MaxRetries: -1, ReadTimeout: patience})
			role, _ := c.Do(t.Context(), "ROLE").Slice()
			_ = c.Close()
			if len(role) > 0 {
				ports[fmt.Sprint(role[0])] = addr
			}
		}
		return len(ports) == 2
	})
	return ports
}
