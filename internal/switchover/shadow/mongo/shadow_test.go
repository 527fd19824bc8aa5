package mongo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/shadowtest"
	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// bench holds production, two targets and a run.
type bench struct {
	production, control, test *mongotest.Server
	run                       *shadow.Run
	addr                      string
}

func TestMain(m *testing.M) { testenv.Main(m) }

func newBench(t *testing.T, set string, change func(*shadow.Config)) *bench {
	t.Helper()
	b := servers(t, set)
	b.start(t, change)
	return b
}

// servers returns the production, control and test servers that the tests of this package share, one test
// after the other: standalone, or each the only member of a replica set of that name. The database shop is
// dropped when the test ends. A test that stops a server must use one of its own instead.
func servers(t *testing.T, set string) *bench {
	t.Helper()
	return &bench{production: server1(t, set, "production"), control: server1(t, set, "control"), test: server1(t, set, "test")}
}

// server1 returns the server of one role. The standalone test server compresses blocks with zstd, like a
// target with other settings.
func server1(t *testing.T, set, role string) *mongotest.Server {
	t.Helper()
	s := testenv.Shared(t, role+" "+set, func(t testing.TB) *mongotest.Server {
		cfg := mongotest.Config{ReplicaSet: set}
		if role == "test" && set == "" {
			cfg.Args = []string{"--wiredTigerCollectionBlockCompressor", "zstd"}
		}
		return mongotest.Start(t, cfg)
	})
	writable(t, s)
	t.Cleanup(func() { dropShop(t, s.Client(t)) })
	return s
}

// dropShop drops the database of the tests. It first kills sessions, since open transactions of clients would
// delay that for a minute.
func dropShop(t *testing.T, c *mongo.Client) {
	t.Helper()
	if err := c.Database("admin").RunCommand(context.Background(), bson.D{{Key: "killAllSessions", Value: bson.A{}}}).Err(); err != nil {
		t.Error(err)
	}
	if err := c.Database("shop").Drop(context.Background()); err != nil {
		t.Error(err)
	}
}

// locked returns a shared server that requires logins. Its administrator is root.
func locked(t *testing.T) *mongotest.Server {
	t.Helper()
	s := testenv.Shared(t, "locked", func(t testing.TB) *mongotest.Server {
		s := mongotest.Start(t, mongotest.Config{Args: []string{"--auth"}})
		addUser(t, s.Client(t).Database("admin"), "root", "r", "SCRAM-SHA-256")
		return s
	})
	t.Cleanup(func() {
		admin := administrator(t, s)
		dropShop(t, admin.Client())
		for _, name := range []string{"app", "mirror"} {
			// The user may not exist.
			_ = admin.RunCommand(context.Background(), bson.D{{Key: "dropUser", Value: name}}).Err()
		}
	})
	return s
}

// writable waits until a member has become primary.
func writable(t *testing.T, s *mongotest.Server) {
	t.Helper()
	c := s.Client(t)
	testenv.Eventually(t, "the member takes writes", func() bool {
		var hello struct {
			IsWritablePrimary bool `bson:"isWritablePrimary"`
		}
		err := c.Database("admin").RunCommand(t.Context(), bson.D{{Key: "hello", Value: 1}}).Decode(&hello)
		return err == nil && hello.IsWritablePrimary
	})
}

func upstream(t *testing.T, uri string) endpoint.Upstream {
	t.Helper()
	up, err := ParseURI(uri)
	if err != nil {
		t.Fatal(err)
	}
	return up
}

func (b *bench) start(t *testing.T, change func(*shadow.Config)) {
	t.Helper()
	cfg := shadow.Config{
		Production: upstream(t, b.production.URI()), Control: upstream(t, b.control.URI()), Test: upstream(t, b.test.URI()),
		Batch: 200 * time.Millisecond, Bound: time.Minute, Patience: time.Minute, // this machine may be slow
		SelfTestPairs: 1,
	}
	if change != nil {
		change(&cfg)
	}
	p, err := New(t.Context(), cfg.Control, cfg.Test)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Protocol = p
	b.run, b.addr = shadowtest.Start(t, cfg)
}

// client returns a client that connects through the mirror.
func (b *bench) client(t *testing.T, more ...*options.ClientOptions) *mongo.Client {
	t.Helper()
	o := options.Client().ApplyURI("mongodb://" + b.addr + "/?directConnection=true").SetServerSelectionTimeout(time.Minute)
	c, err := mongo.Connect(append([]*options.ClientOptions{o}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Disconnect(context.Background()) })
	return c
}

// settle ends the mirror when the targets have got everything that clients did.
func (b *bench) settle(t *testing.T) *shadow.Report {
	t.Helper()
	return shadowtest.Settle(t, b.run)
}

// hashes returns the digests of a database's collections.
func hashes(t *testing.T, s *mongotest.Server, db string) map[string]string {
	t.Helper()
	var r struct{ Collections map[string]string }
	if err := s.Client(t).Database(db).RunCommand(t.Context(), bson.D{{Key: "dbHash", Value: 1}}).Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r.Collections
}

func same(t *testing.T, a, b *mongotest.Server) {
	t.Helper()
	want, got := hashes(t, a, "shop"), hashes(t, b, "shop")
	if len(got) != len(want) || len(want) == 0 {
		t.Errorf("collections %v and %v", want, got)
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s differs between %s and %s:\n%v\n%v", k, a.Addr, b.Addr, contents(t, a, k), contents(t, b, k))
		}
	}
}

func contents(t *testing.T, s *mongotest.Server, collection string) string {
	t.Helper()
	cur, err := s.Client(t).Database("shop").Collection(collection).Find(t.Context(), bson.D{}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}))
	if err != nil {
		t.Fatal(err)
	}
	var all []bson.Raw
	if err := cur.All(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprint(all)
	return text[:min(len(text), 2000)]
}

type m = bson.M

// Clients use the same documents, with all kinds of commands: the targets answer alike and end with the same
// data.
func TestTargetsAgree(t *testing.T) {
	b := newBench(t, "", nil)
	var clients sync.WaitGroup
	for i := range 6 {
		c := b.client(t)
		clients.Go(func() { work1(t, c, "", uint64(i)) })
	}
	clients.Wait()
	if r := b.settle(t); r.Compared.Equal < 4*uint64(steps()) {
		t.Errorf("only %d answers were compared", r.Compared.Equal)
	}
	same(t, b.control, b.test)
}

// Clients with their own documents leave production's data at the targets.
func TestTargetsHaveProductionsData(t *testing.T) {
	b := newBench(t, "rs0", nil)
	var clients sync.WaitGroup
	for i := range 4 {
		c := b.client(t)
		clients.Go(func() { work1(t, c, fmt.Sprint("own", i), uint64(i)) })
	}
	clients.Wait()
	if c := b.settle(t).Compared; c.Diverged > 0 {
		t.Errorf("production answered %d of %d otherwise", c.Diverged, c.Equal)
	}
	same(t, b.production, b.control)
	same(t, b.production, b.test)
}

// steps returns how many commands of work1 a client sends.
func steps() int { return codectest.Amount(80, 80, 200) }

// work1 sends commands of many kinds on few documents.
func work1(t *testing.T, c *mongo.Client, own string, seed uint64) {
	ctx := t.Context()
	r := rand.New(rand.NewPCG(seed, 1))
	db := c.Database("shop")
	orders, queue := db.Collection("orders"+own), db.Collection("queue"+own)
	id := func() string { return fmt.Sprintf("o%d", r.IntN(20)) }
	for range steps() {
		switch r.IntN(13) {
		case 0:
			_, _ = orders.InsertOne(ctx, m{"_id": id(), "n": r.IntN(10)})
		case 1:
			_, _ = orders.UpdateOne(ctx, m{"_id": id()}, m{"$inc": m{"n": 1}})
		case 2:
			_, _ = orders.UpdateMany(ctx, m{"n": r.IntN(10)}, m{"$inc": m{"n": 1}, "$set": m{"many": r.IntN(10)}})
		case 3:
			_, _ = orders.DeleteOne(ctx, m{"_id": id()})
		case 4:
			_, _ = orders.UpdateOne(ctx, m{"name": id()}, m{"$inc": m{"n": 1}}, options.UpdateOne().SetUpsert(true))
		case 5:
			_ = orders.FindOne(ctx, m{"_id": id()})
		case 6:
			drain(ctx, orders.Find, m{"n": m{"$gt": r.IntN(10)}})
		case 7:
			drain(ctx, orders.Find, m{}, options.Find().SetBatchSize(3).SetSort(m{"_id": 1}))
		case 8:
			_, _ = queue.InsertOne(ctx, m{"state": "new", "prio": r.IntN(3)})
		case 9:
			_ = queue.FindOneAndUpdate(ctx, m{"state": "new"}, m{"$set": m{"state": "taken", "by": r.IntN(100)}}, options.FindOneAndUpdate().SetSort(m{"prio": 1}))
		case 10:
			cur, err := orders.Aggregate(ctx, bson.A{m{"$match": m{"n": m{"$gt": 2}}}, m{"$group": m{"_id": "$n", "sum": m{"$sum": "$many"}}}})
			if err == nil {
				var all []bson.Raw
				_ = cur.All(ctx, &all)
			}
		case 11:
			_, _ = orders.CountDocuments(ctx, m{"n": r.IntN(10)})
		case 12:
			_, _ = orders.BulkWrite(ctx, []mongo.WriteModel{
				mongo.NewUpdateOneModel().SetFilter(m{"_id": id()}).SetUpdate(m{"$set": m{"bulk": r.IntN(10)}}).SetUpsert(true),
				mongo.NewUpdateOneModel().SetFilter(m{"tag": r.IntN(10)}).SetUpdate(m{"$inc": m{"n": 1}}).SetUpsert(true),
				mongo.NewDeleteOneModel().SetFilter(m{"n": r.IntN(30)}),
			})
		}
	}
}

func drain(ctx context.Context, find func(context.Context, any, ...options.Lister[options.FindOptions]) (*mongo.Cursor, error), filter any, o ...options.Lister[options.FindOptions]) int {
	cur, err := find(ctx, filter, o...)
	if err != nil {
		return -1
	}
	var all []bson.Raw
	_ = cur.All(ctx, &all)
	return len(all)
}
