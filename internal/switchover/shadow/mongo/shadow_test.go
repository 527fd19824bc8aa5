package mongo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

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
	return &bench{production: startServer(t, set, "production"), control: startServer(t, set, "control"), test: startServer(t, set, "test")}
}

// startServer returns the server of one role. The standalone test server compresses blocks with zstd, like a
// target with other settings.
func startServer(t *testing.T, set, role string) *mongotest.Server {
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
		clients.Go(func() { sendCommands(t, c, "", uint64(i)) })
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
		clients.Go(func() { sendCommands(t, c, fmt.Sprint("own", i), uint64(i)) })
	}
	clients.Wait()
	if c := b.settle(t).Compared; c.Diverged > 0 {
		t.Errorf("production answered %d of %d otherwise", c.Diverged, c.Equal)
	}
	same(t, b.production, b.control)
	same(t, b.production, b.test)
}

// steps returns how many commands sendCommands sends.
func steps() int { return codectest.Amount(80, 80, 200) }

// sendCommands sends commands of many kinds on few documents.
func sendCommands(t *testing.T, c *mongo.Client, own string, seed uint64) {
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

// Unacknowledged writes, compressed messages, documents in sections, and ids chosen by the server.
func TestWaysToWrite(t *testing.T) {
	b := newBench(t, "", nil)
	for _, compressor := range []string{"zlib", "snappy", "zstd"} {
		c := b.client(t, options.Client().SetCompressors([]string{compressor})).Database("shop").Collection(compressor)
		for i := range 50 {
			_, _ = c.InsertOne(t.Context(), m{"_id": i, "text": strings.Repeat(compressor, 50)})
			_ = c.FindOne(t.Context(), m{"_id": i})
		}
	}
	silent := b.client(t, options.Client().SetWriteConcern(writeconcern.Unacknowledged())).Database("shop").Collection("silent")
	for i := range 50 {
		_, _ = silent.InsertOne(t.Context(), m{"_id": i})
		_, _ = silent.UpdateOne(t.Context(), m{"_id": i}, m{"$set": m{"i": i}})
	}
	db := b.client(t).Database("shop")
	if err := db.RunCommand(t.Context(), bson.D{{Key: "insert", Value: "given"}, {Key: "documents", Value: bson.A{m{"a": 1}, m{"a": 2}}}}).Err(); err != nil {
		t.Fatal(err)
	}
	direct := b.production.Client(t).Database("shop").Collection("silent")
	testenv.Eventually(t, "production has written all", func() bool {
		n, _ := direct.CountDocuments(t.Context(), m{"i": m{"$gte": 0}})
		return n == 50
	})
	r := b.settle(t)
	if len(r.Notes) != 1 || !strings.HasPrefix(r.Notes[0], "shop.given: ") || r.Compared.Diverged > 0 {
		t.Errorf("notes %q, %+v", r.Notes, r.Compared)
	}
	same(t, b.control, b.test)
	want, got := hashes(t, b.production, "shop"), hashes(t, b.test, "shop")
	for _, name := range []string{"zlib", "snappy", "zstd", "silent"} {
		if want[name] != got[name] {
			t.Errorf("%s differs from production's", name)
		}
	}
}

// With a unique index, freeing a value and taking it concern different documents, but keep their order.
// Collections, indexes and views are created and dropped.
func TestUniqueIndexesAndViews(t *testing.T) {
	b := newBench(t, "", nil)
	ctx := t.Context()
	a, other := b.client(t).Database("shop"), b.client(t).Database("shop")
	unique := mongo.IndexModel{Keys: m{"mail": 1}, Options: options.Index().SetUnique(true)}
	if _, err := a.Collection("users").Indexes().CreateOne(ctx, unique); err != nil {
		t.Fatal(err)
	}
	if err := a.CreateView(ctx, "everybody", "users", bson.A{}); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		_, _ = a.Collection("users").InsertOne(ctx, m{"_id": i, "mail": "one@example.org"})
		drain(ctx, other.Collection("everybody").Find, m{})
		_, _ = other.Collection("users").DeleteOne(ctx, m{"_id": i})
	}
	_ = a.Collection("gone").Drop(ctx)
	if c := b.settle(t).Compared; c.Diverged > 0 {
		t.Errorf("%+v", c)
	}
	same(t, b.production, b.test)
}

// Operations that can't be mirrored are counted; those that differ by nature are named and compared by
// success.
func TestLeftOut(t *testing.T) {
	b := newBench(t, "rs0", nil)
	ctx := t.Context()
	db := b.client(t).Database("shop")
	_ = db.CreateCollection(ctx, "log", options.CreateCollection().SetCapped(true).SetSizeInBytes(1<<20))
	_, _ = db.Collection("log").InsertOne(ctx, m{"_id": 1})
	tail, err := db.Collection("log").Find(ctx, m{}, options.Find().SetCursorType(options.TailableAwait))
	if err != nil || !tail.Next(ctx) {
		t.Fatal(err)
	}
	stream, err := db.Collection("log").Watch(ctx, bson.A{})
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.TryNext(ctx)
	_ = stream.Close(ctx)
	_ = tail.Close(ctx)
	_, _ = db.Collection("c").UpdateOne(ctx, m{"_id": 1}, m{"$currentDate": m{"at": true}}, options.UpdateOne().SetUpsert(true))
	_ = db.Collection("c").FindOne(ctx, m{"_id": 1})
	r := b.settle(t)
	if r.Left["change streams"] != 1 || r.Left["tailable cursors"] != 1 || len(r.Notes) != 1 || r.Compared.Timed != 1 {
		t.Errorf("left %v, notes %q, %+v", r.Left, r.Notes, r.Compared)
	}
}

func TestSelfTestFindsWhatItPlants(t *testing.T) {
	b := newBench(t, "", nil)
	err := b.run.SelfTest(t.Context())
	switch {
	case errors.Is(err, shadow.ErrNoisy): // the slowdown comes last: the other faults were found
		t.Log(err)
	case err != nil:
		t.Fatal(err)
	}
	for _, s := range []*mongotest.Server{b.control, b.test} {
		if left, err := s.Client(t).ListDatabaseNames(t.Context(), m{"name": scratchDB}); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

// Clients log in to production; the mirror logs in to targets with their own users, by either mechanism.
func TestLogins(t *testing.T) {
	for mechanism, password := range map[string]string{"SCRAM-SHA-256": "t:ü", "SCRAM-SHA-1": "t"} {
		t.Run(mechanism, func(t *testing.T) { logins(t, mechanism, password) })
	}
}

// logins runs with a test server that requires logins; production accepts them without requiring any.
func logins(t *testing.T, mechanism, password string) {
	b := &bench{production: startServer(t, "", "production"), control: startServer(t, "", "control"), test: locked(t)}
	admin := b.production.Client(t).Database("admin")
	addUser(t, admin, "app", "p", "SCRAM-SHA-256")
	t.Cleanup(func() { _ = admin.RunCommand(context.Background(), bson.D{{Key: "dropUser", Value: "app"}}).Err() })
	addUser(t, administrator(t, b.test), "mirror", password, mechanism)
	b.start(t, func(c *shadow.Config) {
		c.Test = upstream(t, "mongodb://mirror:"+url.QueryEscape(password)+"@"+b.test.Addr+"/?authSource=admin")
	})
	client := b.client(t, options.Client().SetAuth(options.Credential{Username: "app", Password: "p"}))
	var status struct {
		AuthInfo struct {
			Users []struct{ User string } `bson:"authenticatedUsers"`
		} `bson:"authInfo"`
	}
	if err := client.Database("admin").RunCommand(t.Context(), bson.D{{Key: "connectionStatus", Value: 1}}).Decode(&status); err != nil {
		t.Fatal(err)
	}
	if users := status.AuthInfo.Users; len(users) != 1 || users[0].User != "app" {
		t.Errorf("production knows the client as %v", users)
	}
	c := client.Database("shop").Collection("c")
	for i := range 10 {
		if _, err := c.InsertOne(t.Context(), m{"_id": i}); err != nil {
			t.Fatal(err)
		}
	}
	if r := b.settle(t); r.Compared.Equal != 10 {
		t.Log(r.Reasons)
		t.Errorf("%+v", r.Compared)
	}
	wrong := upstream(t, "mongodb://mirror:wrong@"+b.test.Addr)
	if _, err := New(t.Context(), wrong, wrong); err == nil || strings.Contains(err.Error(), "wrong") {
		t.Errorf("with a wrong password: %v", err)
	}
}

func addUser(t testing.TB, admin *mongo.Database, name, password, mechanism string) {
	t.Helper()
	err := admin.RunCommand(t.Context(), bson.D{
		{Key: "createUser", Value: name},
		{Key: "pwd", Value: password},
		{Key: "roles", Value: bson.A{"root"}},
		{Key: "mechanisms", Value: bson.A{mechanism}},
	}).Err()
	if err != nil {
		t.Fatal(err)
	}
}

// Every command that a server lists has a class.
func TestCommandsHaveClasses(t *testing.T) {
	var r struct{ Commands map[string]bson.Raw }
	s := startServer(t, "", "production")
	if err := s.Client(t).Database("admin").RunCommand(t.Context(), bson.D{{Key: "listCommands", Value: 1}}).Decode(&r); err != nil {
		t.Fatal(err)
	}
	if len(r.Commands) < 100 {
		t.Fatalf("the server lists %d commands", len(r.Commands))
	}
	for name := range r.Commands {
		if classOf(name) == unknown {
			t.Errorf("%s has no class", name)
		}
	}
}
