package mongo

import (
	"context"
	"flag"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/test/testenv"
)

var failovers = flag.Int("failovers", 0, "how often TestFailover kills the primary; 0: not at all")

// TestFailover kills the primary of a replica set while clients write through gateways. The
// drivers find the next one, and every write that was acknowledged is there afterwards.
func TestFailover(t *testing.T) {
	if *failovers == 0 {
		t.Skip("takes a while; run it with -failovers 1")
	}
	var servers []*testenv.MongodServer
	var hosts []string
	for range 3 {
		s := testenv.Mongod(t, testenv.MongodConfig{ReplicaSet: "rs0", Uninitiated: true})
		servers, hosts = append(servers, s), append(hosts, s.Addr)
	}
	servers[0].Initiate(t, hosts...)
	g := serve(t, "mongodb://"+strings.Join(hosts, ","), "", "")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var writers sync.WaitGroup
	written := make([]map[string]bool, 4)
	for w := range written {
		written[w] = map[string]bool{}
		coll := connect(t, seeds(t, g)).Database("shop").Collection("log")
		writers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				id := fmt.Sprintf("%d/%d", w, i)
				if _, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "text", Value: strings.Repeat("something ", 20)}}); err == nil {
					written[w][id] = true
				}
			}
		})
	}
	for range *failovers {
		time.Sleep(time.Second)
		killed := primaryOf(t, servers)
		servers[killed].Kill()
		waitForWrites(t, g, killed)
		if err := servers[killed].Restart(t); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	writers.Wait()
	checkWritten(t, g, written)
}

// seeds names the gateways of all three members: any of them may be the one that is down.
func seeds(t *testing.T, g *testenv.GatewayServer) string {
	t.Helper()
	host, port, err := net.SplitHostPort(g.Addr)
	first, noNumber := strconv.Atoi(port)
	if err != nil || noNumber != nil {
		t.Fatal(g.Addr)
	}
	var list []string
	for i := range 3 {
		list = append(list, net.JoinHostPort(host, strconv.Itoa(first+i)))
	}
	return "mongodb://" + strings.Join(list, ",") + "/?replicaSet=rs0&w=majority"
}

// primaryOf waits until a server calls itself primary.
func primaryOf(t *testing.T, servers []*testenv.MongodServer) int {
	t.Helper()
	for range 300 {
		for i, s := range servers {
			var hello struct {
				Primary bool `bson:"isWritablePrimary"`
			}
			err := s.Client(t).Database("admin").RunCommand(t.Context(), bson.D{{Key: "hello", Value: 1}}).Decode(&hello)
			if err == nil && hello.Primary {
				return i
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("no primary")
	return 0
}

// waitForWrites returns when a client of the gateways could write again.
func waitForWrites(t *testing.T, g *testenv.GatewayServer, killed int) {
	t.Helper()
	coll := connect(t, seeds(t, g)).Database("shop").Collection("after")
	for range 12 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := coll.InsertOne(ctx, bson.D{{Key: "killed", Value: killed}})
		cancel()
		if err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("nobody can write any more")
}

func checkWritten(t *testing.T, g *testenv.GatewayServer, written []map[string]bool) {
	t.Helper()
	coll := connect(t, seeds(t, g)).Database("shop").Collection("log")
	cursor, err := coll.Find(t.Context(), bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for cursor.Next(t.Context()) {
		there[cursor.Current.Lookup("_id").StringValue()] = true
	}
	if err := cursor.Err(); err != nil {
		t.Fatal(err)
	}
	acknowledged := 0
	for _, ids := range written {
		for id := range ids {
			acknowledged++
			if !there[id] {
				t.Errorf("%s was acknowledged and is lost", id)
			}
		}
	}
	t.Logf("%d writes acknowledged, %d there", acknowledged, len(there))
	if acknowledged < 100 {
		t.Errorf("only %d writes", acknowledged)
	}
}
