package survive

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/test/testenv"
)

// pair is a primary with a replica behind a link that can stall. front is an address that forwards to one
// of them.
type pair struct {
	primary, replica *testenv.RedisServer
	link, front      *forwarder
}

func newPair(t *testing.T) *pair {
	p := &pair{primary: testenv.Redis(t, "--repl-diskless-sync-delay", "0"), replica: testenv.Redis(t)}
	p.link, p.front = newForwarder(t, p.primary.Addr), newForwarder(t, p.primary.Addr)
	c := connect(t, p.replica.Addr)
	must(t, c.ReplicaOf(t.Context(), "127.0.0.1", fmt.Sprint(p.link.port())).Err())
	testenv.Eventually(t, "the replica is in sync", func() bool {
		return strings.Contains(c.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	return p
}

// failOver promotes the replica, with the data it has received, and forwards new connections to it.
func (p *pair) failOver(t *testing.T) {
	must(t, connect(t, p.replica.Addr).ReplicaOf(t.Context(), "NO", "ONE").Err())
	p.front.lead(p.replica.Addr)
}

// ways are the ways in which clients of the old primary notice its failure.
var ways = map[string]func(p *pair){
	"connections are cut":      func(p *pair) { p.front.cut() },
	"connections fall silent":  func(p *pair) { p.front.freeze() },
	"the old primary lives on": func(*pair) {},
}

// TestFailoverUnderLoad fails over to a replica that lags by hundreds of values.
func TestFailoverUnderLoad(t *testing.T) {
	p := newPair(t)
	d := newDict(t, "failover")
	publish(t, p.primary.Addr, d)
	gateway := gatewayWith(t, p.front.addr(), d)
	waitForUse(t, connect(t, gateway.Addr), connect(t, p.primary.Addr), d)
	l := startLoad(t, gateway.Addr, 0, true)
	replica := connect(t, p.replica.Addr)
	testenv.Eventually(t, "values have come over", func() bool { return replica.DBSize(t.Context()).Val() >= 100 })
	p.link.freeze()
	l.goOn(300)
	p.failOver(t)
	inherited := replica.DBSize(t.Context()).Val()
	p.front.cut()
	l.goOn(400)
	l.end()
	gateway.Kill()
	p.primary.Kill()
	values, naming := l.readAll(freshGateway(t, p.replica.Addr).Addr, p.replica.Addr, d)
	t.Logf("%d values, %d name the dictionary; %d keys had come over", values, naming, inherited)
	if naming < 100 || inherited == 0 {
		t.Errorf("%d values name the dictionary, %d keys had come over", naming, inherited)
	}
}

// TestFailoverLosesTheDictionary fails over to a replica that has not even received the dictionary. From
// the first value on, any reader can open the values written to it afterwards.
func TestFailoverLosesTheDictionary(t *testing.T) {
	for what, end := range ways {
		t.Run(what, func(t *testing.T) {
			if what != "connections are cut" {
				testenv.Full(t)
			}
			t.Parallel()
			p := newPair(t)
			p.link.freeze()
			d := newDict(t, "lost")
			publish(t, p.primary.Addr, d)
			gateway := gatewayWith(t, p.front.addr(), d)
			waitForUse(t, connect(t, gateway.Addr), connect(t, p.primary.Addr), d)
			time.Sleep(time.Second) // the fastest failover takes as long to detect the failure
			p.failOver(t)
			end(p)
			everyValueOpens(t, gateway, p.replica, d)
			gateway.Kill() // it would wait for silent connections
		})
	}
}

// TestServerRestoredFromOlderBackup restores a backup from before the dictionary was made.
func TestServerRestoredFromOlderBackup(t *testing.T) {
	server := testenv.Redis(t)
	must(t, connect(t, server.Addr).Set(t.Context(), "old", valueOf("old", 1), 0).Err())
	older := backup(t, server)
	d := newDict(t, "later")
	publish(t, server.Addr, d)
	gateway := gatewayWith(t, server.Addr, d)
	idle := connect(t, gateway.Addr)
	waitForUse(t, idle, connect(t, server.Addr), d)
	older() // the gateway may store the dictionary again at once
	everyValueOpens(t, gateway, server, d)
	if got := connect(t, gateway.Addr).Get(t.Context(), "old").Val(); got != valueOf("old", 1) {
		t.Errorf("what was in the backup reads as %.80q", got)
	}
}

// everyValueOpens writes over new connections until values name the dictionary again.
func everyValueOpens(t *testing.T, gateway *testenv.GatewayServer, server *testenv.RedisServer, d *codec.Dict) {
	t.Helper()
	direct := connect(t, server.Addr)
	for n := range 1000 {
		c := connect(t, gateway.Addr)
		key := fmt.Sprint("after:", n)
		for k := range 3 {
			if err := c.Set(t.Context(), key, valueOf(key, k), 0).Err(); err != nil {
				t.Fatal(err)
			}
			stored := direct.Get(t.Context(), key).Val()
			plain, err := opener(reader(t, server.Addr)).Open(nil, []byte(stored))
			if err != nil || string(plain) != valueOf(key, k) {
				t.Fatalf("value %d of connection %d: %.80q, %v", k, n, plain, err)
			}
			if dictOf(stored) == d.Number() && n > 5 {
				t.Logf("value %d names the dictionary", 3*n+k)
				return
			}
		}
		_ = c.Close()
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("no value names the dictionary")
}
