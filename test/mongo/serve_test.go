package mongo

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// standalone returns a mongod that tests share, one after the other. Each uses a database with its own
// name.
func standalone(t testing.TB) *mongotest.Server {
	t.Helper()
	return testenv.Shared(t, "mongod", func(t testing.TB) *mongotest.Server { return mongotest.Start(t, mongotest.Config{}) })
}

// setOfOne returns a replica set with one member that tests share, one after the other.
func setOfOne(t testing.TB) *mongotest.Server {
	t.Helper()
	return testenv.Shared(t, "set of one", func(t testing.TB) *mongotest.Server {
		return mongotest.Start(t, mongotest.Config{ReplicaSet: "rs0"})
	})
}

// replicaSet returns a replica set of three that tests share, one after the other. Each uses a database
// with its own name. Tests may have the primary step down.
func replicaSet(t testing.TB) []*mongotest.Server {
	t.Helper()
	return testenv.Shared(t, "replica set", startReplicaSet)
}

// startReplicaSet starts a replica set of three.
func startReplicaSet(t testing.TB) (servers []*mongotest.Server) {
	t.Helper()
	for range 3 {
		servers = append(servers, mongotest.Start(t, mongotest.Config{ReplicaSet: "rs0", Uninitiated: true}))
	}
	servers[0].Initiate(t, addresses(servers)...)
	return servers
}

func addresses(servers []*mongotest.Server) (list []string) {
	for _, s := range servers {
		list = append(list, s.Addr)
	}
	return list
}

func connect(t testing.TB, uri string) *mongo.Client {
	t.Helper()
	c, err := mongo.Connect(options.Client().ApplyURI(uri).SetServerSelectionTimeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = c.Disconnect(ctx)
	})
	return c
}

func documents(n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = bson.D{{Key: "_id", Value: i}, {Key: "text", Value: fmt.Sprintf("document number %d of a collection with text in it", i)}}
	}
	return list
}

func serve(t testing.TB, upstream string, settings string, rules string) *testenv.GatewayServer {
	t.Helper()
	return testenv.Gateway(t, testenv.GatewayConfig{Protocol: "mongo", Upstream: upstream, Settings: settings, Rules: rules})
}

func TestServe(t *testing.T) {
	server := standalone(t)
	sentBefore, receivedBefore := server.Compressed(t, "zstd")
	g := serve(t, "mongodb://"+server.Addr, "", "")
	coll := connect(t, "mongodb://"+g.Addr+"/?directConnection=true").Database(t.Name()).Collection("things")
	if _, err := coll.InsertMany(t.Context(), documents(500)); err != nil {
		t.Fatal(err)
	}
	cursor, err := coll.Find(t.Context(), bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	var all []bson.Raw
	if err := cursor.All(t.Context(), &all); err != nil || len(all) != 500 {
		t.Fatal(len(all), err)
	}
	sent, received := server.Compressed(t, "zstd")
	sent, received = sent.Since(sentBefore), received.Since(receivedBefore)
	if sent.Out == 0 || received.In == 0 || sent.In < 3*sent.Out {
		t.Errorf("mongod sent %+v and received %+v", sent, received)
	}
	up := g.Metric(t, "cinch_received_bytes_total")
	if raw, stored := g.Metric(t, "cinch_value_raw_bytes_total"), g.Metric(t, "cinch_value_stored_bytes_total"); raw < 2*stored || up == 0 {
		t.Errorf("the metrics say %v bytes became %v", raw, stored)
	}
	if !strings.Contains(g.Output(), "mongodb://"+g.Addr+"/?directConnection=true") {
		t.Error("the URI to use is not in the output")
	}
}

// The first signal closes idle connections, waits for operations in flight, and ends the process.
func TestDrain(t *testing.T) {
	server := standalone(t)
	g := serve(t, "mongodb://"+server.Addr, "", "")
	db := connect(t, "mongodb://"+g.Addr+"/?directConnection=true").Database("admin")
	done := make(chan error, 1)
	go func() { // meanwhile the monitor's connections wait for changes
		done <- db.RunCommand(context.Background(), bson.D{{Key: "sleep", Value: 1}, {Key: "millis", Value: 1500}, {Key: "lock", Value: "none"}}).Err()
	}()
	testenv.Eventually(t, "the command is in progress", func() bool { return len(done) > 0 || inProgress(t, server) })
	if err := g.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("the command in flight: %v", err)
	}
	if err := g.Wait(); err != nil {
		t.Errorf("the gateway ended with %v", err)
	}
}

func inProgress(t *testing.T, server *mongotest.Server) bool {
	t.Helper()
	var ops struct{ Inprog []bson.Raw }
	err := server.Client(t).Database("admin").RunCommand(t.Context(), bson.D{{Key: "currentOp", Value: 1}, {Key: "command.sleep", Value: 1}}).Decode(&ops)
	if err != nil {
		t.Fatal(err)
	}
	return len(ops.Inprog) > 0
}

// A replica set is reached only through the gateways, whatever names its members have.
func TestReplicaSet(t *testing.T) {
	hosts := addresses(replicaSet(t))
	g := serve(t, "mongodb://"+strings.Join(hosts, ","), "", "")
	c := connect(t, "mongodb://"+g.Addr+"/?replicaSet=rs0&w=majority")
	coll := c.Database(t.Name()).Collection("things")
	if _, err := coll.InsertMany(t.Context(), documents(200)); err != nil {
		t.Fatal(err)
	}
	var hello struct {
		Hosts       []string
		Me, Primary string
	}
	if err := c.Database("admin").RunCommand(t.Context(), bson.D{{Key: "hello", Value: 1}}).Decode(&hello); err != nil {
		t.Fatal(err)
	}
	for _, at := range append(hello.Hosts, hello.Me, hello.Primary) {
		for _, h := range hosts {
			if at == h {
				t.Errorf("the client hears of %s itself: %+v", h, hello)
			}
		}
	}
	if g.Metric(t, "cinch_connections_total") == 0 {
		t.Error("no client came to the gateways")
	}
	if strings.Contains(g.Output(), "member has no gateway") {
		t.Error("a member was passed on as it is")
	}
}

// Drivers treat the gateway as a load balancer in front of the primary. TestStepDown checks the change to
// the next primary.
func TestLoadBalanced(t *testing.T) {
	hosts := addresses(replicaSet(t))
	g := serve(t, "mongodb://"+strings.Join(hosts, ",")+"/?loadBalanced=true", "", "")
	c := connect(t, "mongodb://"+g.Addr+"/?loadBalanced=true&w=majority")
	coll := c.Database(t.Name()).Collection("things")
	if _, err := coll.InsertMany(t.Context(), documents(200)); err != nil {
		t.Fatal(err)
	}
	cursor, err := coll.Find(t.Context(), bson.D{}, options.Find().SetBatchSize(20))
	if err != nil {
		t.Fatal(err)
	}
	var all []bson.Raw
	if err := cursor.All(t.Context(), &all); err != nil || len(all) != 200 {
		t.Fatal(len(all), err)
	}
	session, err := c.StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(context.Background())
	_, err = session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
		return coll.InsertOne(ctx, bson.D{{Key: "_id", Value: "in a transaction"}})
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := coll.CountDocuments(t.Context(), bson.D{}); err != nil || n != 201 {
		t.Errorf("%d documents, %v", n, err)
	}
}

// stepDown makes the primary step down. A server refuses for a while if no other member can take over.
func stepDown(t *testing.T, servers []*mongotest.Server) {
	t.Helper()
	admin := servers[primaryOf(t, servers)].Client(t).Database("admin")
	testenv.Eventually(t, "the primary steps down", func() bool {
		return admin.RunCommand(t.Context(), bson.D{{Key: "replSetStepDown", Value: 5}, {Key: "secondaryCatchUpPeriodSecs", Value: 4}}).Err() == nil
	})
}
