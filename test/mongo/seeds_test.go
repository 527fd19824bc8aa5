package mongo

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

// TestOneOfTwoGatewaysDies has two processes in front of the same replica set, and drivers with both as
// seeds. Either one may be killed: drivers continue through the other, and use both again later.
func TestOneOfTwoGatewaysDies(t *testing.T) {
	servers := replicaSet(t)
	all := strings.Join(addresses(servers), ",")
	var at, standbys []string
	for range 2 {
		port := testenv.FreePorts(t, len(servers)+1, "127.0.0.1")
		at = append(at, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		standbys = append(standbys, net.JoinHostPort("127.0.0.1", strconv.Itoa(port+len(servers))))
	}
	start := func(i int) *testenv.GatewayServer {
		return testenv.Gateway(t, testenv.GatewayConfig{Protocol: "mongo", Listen: at[i], Upstream: "mongodb://" + all + "/?standby=" + standbys[1-i]})
	}
	gateways := []*testenv.GatewayServer{start(0), start(1)}
	for _, g := range gateways {
		testenv.Eventually(t, "the standbys are known", func() bool { return strings.Contains(g.Output(), "drivers that lose this gateway") })
	}
	for _, driver := range []struct {
		name  string
		start func(t *testing.T, uri, collection string) steady
	}{{"go", startGoWriters}, {"python", startPythonWriters}, {"node", startNodeWriters}} {
		t.Run(driver.name, func(t *testing.T) {
			if driver.name != "go" {
				testenv.Full(t)
			}
			collection := fmt.Sprintf("log%d", time.Now().UnixNano())
			w := driver.start(t, members(strings.Join(at, ",")), collection)
			goOn(t, w)
			for i, g := range gateways {
				g.Kill()
				began := time.Now()
				goOn(t, w)
				t.Logf("without gateway %d every thread goes on after %.1f s", i+1, time.Since(began).Seconds())
				if err := g.Restart(); err != nil {
					t.Fatal(err)
				}
				testenv.Eventually(t, "the gateway is back", func() bool { return strings.Count(g.Output(), "drivers that lose this gateway") > 0 })
			}
			ids, errors := w.stop(t)
			for i, e := range errors {
				if i < 3 {
					t.Log(e)
				}
			}
			t.Logf("%d writes acknowledged, %d errors", len(ids), len(errors))
			// Node retries only once, perhaps on another connection to the dead gateway.
			if len(errors) > 4*steadyThreads {
				t.Errorf("%d errors for %d threads", len(errors), steadyThreads)
			}
			areThere(t, servers, collection, ids)
		})
	}
}
