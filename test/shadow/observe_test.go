package shadow

import (
	"context"
	"fmt"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	published "github.com/cinch-layer/cinch/test/rig/menus"
	"github.com/cinch-layer/cinch/test/testenv"
)

// The saving that `mode: observe` reports on live traffic is the one after the rule compresses. Until then
// values are stored unchanged.
func TestObserveSaysWhatSealingSaves(t *testing.T) {
	server := testenv.Redis(t)
	observing := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr, Rules: "- {name: menus, key: 'menu:*', setting: zstd-3, mode: observe}"})
	stored := func(g *testenv.GatewayServer) (raw, sum int64, sealed int) {
		c, direct := goredis.NewClient(&goredis.Options{Addr: g.Addr}), goredis.NewClient(&goredis.Options{Addr: server.Addr})
		defer c.Close()
		defer direct.Close()
		for i := range 40 {
			key, v := fmt.Sprint("menu:", i), published.Menu(i)
			if err := c.Set(context.WithoutCancel(t.Context()), key, v, 0).Err(); err != nil {
				t.Fatal(err)
			}
			if c.Get(t.Context(), key).Val() != string(v) {
				t.Fatalf("%s comes back otherwise", key)
			}
			at := direct.Get(t.Context(), key).Val()
			raw, sum = raw+int64(len(v)), sum+int64(len(at))
			if envelope.IsSealed([]byte(at)) {
				sealed++
			}
		}
		return raw, sum, sealed
	}
	raw, sum, sealed := stored(observing)
	if sum != raw || sealed > 0 {
		t.Errorf("%d of %d bytes are stored, %d values sealed", sum, raw, sealed)
	}
	values, of, would := observing.Metric(t, "cinch_values_observed_total"), observing.Metric(t, "cinch_observed_raw_bytes_total"), observing.Metric(t, "cinch_observed_stored_bytes_total")
	cpu := observing.Metric(t, "cinch_observed_seal_cpu_seconds_total") + observing.Metric(t, "cinch_observed_open_cpu_seconds_total")
	if int64(of) != raw || values != 40 || cpu <= 0 {
		t.Errorf("%g values of %g bytes were observed in %g s", values, of, cpu)
	}
	sealing := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr, Rules: "- {name: menus, key: 'menu:*', setting: zstd-3}"})
	if _, sum, sealed = stored(sealing); sealed != 40 || sum != int64(would) {
		t.Errorf("observed %g bytes, stored %d in %d envelopes", would, sum, sealed)
	}
	t.Logf("%g values of %g bytes: %.1f %% would be stored, and are", values, of, 100*would/of)
}
