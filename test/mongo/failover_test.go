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

	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

var failovers = flag.Int("failovers", 0, "how often TestFailover kills the primary; 0: not at all")

// TestFailover kills the primary of a replica set while clients write, through each kind of gateway and
// directly. The drivers find the next one, and every acknowledged write is there afterwards.
func TestFailover(t *testing.T) {
	if *failovers == 0 {
		t.Skip("takes a while; run it with -failovers 1")
	}
	servers := startReplicaSet(t)
	all := strings.Join(addresses(servers), ",")
	for _, c := range topologies(all) {
		t.Run(c.name, func(t *testing.T) { failOver(t, servers, c.uri(t)) })
	}
}

// members returns the URI of a replica set, any member of which may be down.
func members(addrs string) string { return "mongodb://" + addrs + "/?replicaSet=rs0&w=majority" }

func balanced(addr string) string { return "mongodb://" + addr + "/?loadBalanced=true&w=majority" }

// listeners returns the addresses of a gateway for n members.
func listeners(t *testing.T, g *testenv.GatewayServer, n int) string {
	t.Helper()
	host, port := hostPort(t, g.Addr)
	first, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for i := range n {
		list = append(list, net.JoinHostPort(host, strconv.Itoa(first+i)))
	}
	return strings.Join(list, ",")
}

// failOver kills primaries while clients write.
func failOver(t *testing.T, servers []*mongotest.Server, uri string) {
	heardOf(t, uri)
	w := startWriters(t, uri)
	for range *failovers {
		time.Sleep(time.Second)
		killed := primaryOf(t, servers)
		servers[killed].Kill()
		began := time.Now()
		waitForWrites(t, uri, killed)
		t.Logf("a new client could write again after %.1f s", time.Since(began).Seconds())
		w.goOn(t)
		t.Logf("the writers could after %.1f s", time.Since(began).Seconds())
		if err := servers[killed].Restart(t); err != nil {
			t.Fatal(err)
		}
	}
	w.stop()
	w.check(t, servers[primaryOf(t, servers)])
}

// heardOf checks that drivers are told only of hosts in the URI.
func heardOf(t *testing.T, uri string) {
	t.Helper()
	var hello struct {
		Hosts       []string
		Me, Primary string
	}
	err := connect(t, uri).Database("admin").RunCommand(t.Context(), bson.D{{Key: "hello", Value: 1}}).Decode(&hello)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(uri, "loadBalanced") {
		return // load-balanced drivers use no other address
	}
	for _, at := range append(hello.Hosts, hello.Me, hello.Primary) {
		if !strings.Contains(uri, at) {
			t.Errorf("with %s drivers hear of %s", uri, at)
		}
	}
}

// pace is a writer's pause between two operations. Writers run while a server steps down or starts, and
// without it would keep the machine busy with thousands of writes that show no more than some hundred.
const pace = 5 * time.Millisecond

// writers insert documents continuously, and record those that were acknowledged.
type writers struct {
	collection string
	cancel     context.CancelFunc
	running    sync.WaitGroup

	mu      sync.Mutex
	written []map[string]bool
}

func startWriters(t *testing.T, uri string) *writers {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &writers{collection: fmt.Sprintf("log%d", time.Now().UnixNano()), cancel: cancel, written: make([]map[string]bool, 4)}
	for i := range w.written {
		w.written[i] = map[string]bool{}
		coll := connect(t, uri).Database("shop").Collection(w.collection)
		w.running.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				id := fmt.Sprintf("%d/%d", i, n)
				_, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "text", Value: textOf(id)}})
				if err == nil {
					w.mu.Lock()
					w.written[i][id] = true
					w.mu.Unlock()
				}
				time.Sleep(pace)
			}
		})
	}
	return w
}

func textOf(id string) string { return strings.Repeat("written as "+id+", ", 15) }

func (w *writers) counts() (n []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ids := range w.written {
		n = append(n, len(ids))
	}
	return n
}

// goOn waits until every writer has had 20 more documents acknowledged.
func (w *writers) goOn(t *testing.T) {
	t.Helper()
	before := w.counts()
	testenv.Eventually(t, "all writers go on", func() bool {
		for i, n := range w.counts() {
			if n < before[i]+20 {
				return false
			}
		}
		return true
	})
}

func (w *writers) stop() {
	w.cancel()
	w.running.Wait()
}

// check reads the documents directly from the server and compares them with the acknowledged ones.
func (w *writers) check(t *testing.T, server *mongotest.Server) {
	t.Helper()
	cursor, err := server.Client(t).Database("shop").Collection(w.collection).Find(t.Context(), bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for cursor.Next(t.Context()) {
		id := cursor.Current.Lookup("_id").StringValue()
		there[id] = true
		if text := cursor.Current.Lookup("text").StringValue(); text != textOf(id) {
			t.Errorf("%s has the text %q", id, text)
		}
	}
	if err := cursor.Err(); err != nil {
		t.Fatal(err)
	}
	acknowledged := 0
	for _, ids := range w.written {
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

// primaryOf waits until a server reports that it is primary, and returns its index.
func primaryOf(t *testing.T, servers []*mongotest.Server) int {
	t.Helper()
	for range 1800 {
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

// waitForWrites waits until a new client can write again.
func waitForWrites(t *testing.T, uri string, killed int) {
	t.Helper()
	coll := connect(t, uri).Database("shop").Collection("after")
	for range 36 {
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

// topology is a way to connect to a replica set.
type topology struct {
	name string
	uri  func(t *testing.T) string // for drivers
}

// topologies returns the ways to connect to the replica set of these members.
func topologies(all string) []topology {
	return []topology{
		{"direct", func(*testing.T) string { return members(all) }},
		{"a gateway a member", func(t *testing.T) string { return members(listeners(t, serve(t, "mongodb://"+all, "", ""), 3)) }},
		{"load balanced", func(t *testing.T) string {
			return balanced(serve(t, "mongodb://"+all+"/?loadBalanced=true", "", "").Addr)
		}},
		{"a pair a member", func(t *testing.T) string {
			far := serve(t, "mongodb://"+all+"/?peers=true", "", "")
			return members(listeners(t, serveNear(t, listeners(t, far, 3)), 3))
		}},
		{"a pair, load balanced", func(t *testing.T) string {
			far := serve(t, "mongodb://"+all+"/?peers=true", "", "")
			return balanced(serveNear(t, listeners(t, far, 3)+"/?loadBalanced=true").Addr)
		}},
	}
}

// serveNear starts the near gateway of a pair. At the end of the test its clients' messages must have gone over links.
func serveNear(t *testing.T, upstream string) *testenv.GatewayServer {
	t.Helper()
	near := serve(t, "mongodb://"+upstream, "", "")
	t.Cleanup(func() {
		if near.Metric(t, "cinch_link_streams_total") == 0 {
			t.Error("no message went over a link")
		}
	})
	return near
}
