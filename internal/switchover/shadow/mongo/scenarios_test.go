package mongo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/shadowtest"
	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// Transfers between accounts, some of them aborted, in sessions that share a pool: the targets' balances
// equal production's.
func TestTransactions(t *testing.T) {
	b := newBench(t, "rs0", nil)
	setUp := b.client(t).Database("shop").Collection("accounts")
	for i := range 6 {
		if _, err := setUp.InsertOne(t.Context(), m{"_id": i, "money": 100}); err != nil {
			t.Fatal(err)
		}
	}
	c := b.client(t)
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			for n := range 20 {
				transfer(t.Context(), c, (i+n)%6, (i+2*n+1)%6, n%5 == 4)
			}
		})
	}
	clients.Wait()
	r := b.settle(t)
	if r.Compared.Equal < 60 {
		t.Errorf("%d answers were compared", r.Compared.Equal)
	}
	same(t, b.production, b.control)
	same(t, b.production, b.test)
}

func transfer(ctx context.Context, c *mongo.Client, from, to int, abort bool) {
	accounts := c.Database("shop").Collection("accounts")
	s, err := c.StartSession()
	if err != nil {
		return
	}
	defer s.EndSession(ctx)
	_, _ = s.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		_ = accounts.FindOne(ctx, m{"_id": from})
		if _, err := accounts.UpdateOne(ctx, m{"_id": from}, m{"$inc": m{"money": -1}}); err != nil {
			return nil, err
		}
		if _, err := accounts.UpdateOne(ctx, m{"_id": to}, m{"$inc": m{"money": 1}}); err != nil {
			return nil, err
		}
		if abort {
			return nil, fmt.Errorf("changed my mind")
		}
		return nil, nil
	})
}

// A target that is not in a replica set gets the statements of a transaction without the transaction.
func TestTransactionsAtStandaloneTargets(t *testing.T) {
	b := &bench{production: server1(t, "rs0", "production"), control: server1(t, "", "control"), test: server1(t, "", "test")}
	b.start(t, nil)
	c := b.client(t)
	for i := range 2 {
		if _, err := c.Database("shop").Collection("accounts").InsertOne(t.Context(), m{"_id": i, "money": 100}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		transfer(t.Context(), c, i%2, (i+1)%2, i == 5)
	}
	if r := b.settle(t); r.Left["transactions that clients aborted (a target is not a replica set)"] != 1 {
		t.Errorf("left out: %v", r.Left)
	}
	same(t, b.production, b.control)
	same(t, b.production, b.test)
}

// Cursors are read over another connection than the one that opened them, or abandoned.
func TestCursors(t *testing.T) {
	b := newBench(t, "", nil)
	one := options.Client().SetMaxPoolSize(1)
	db := b.client(t, one).Database("shop")
	var docs []any
	for i := range 250 {
		docs = append(docs, m{"_id": i, "text": strings.Repeat("x", 100)})
	}
	if _, err := db.Collection("c").InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	if n := drain(t.Context(), db.Collection("c").Find, m{}, options.Find().SetSort(m{"_id": 1}).SetBatchSize(20)); n != 250 {
		t.Fatalf("%d documents", n)
	}
	id := openCursor(t, b.addr)
	readOver(t, b.addr, id)
	if c := b.settle(t).Compared; c.Diverged > 0 || c.Timed != 1 || c.Equal < 17 {
		t.Errorf("%+v", c)
	}
	for _, s := range []*mongotest.Server{b.control, b.test} {
		var status struct {
			Metrics struct {
				Cursor struct{ Open struct{ Total int64 } }
			}
		}
		if err := s.Client(t).Database("admin").RunCommand(t.Context(), bson.D{{Key: "serverStatus", Value: 1}}).Decode(&status); err != nil {
			t.Fatal(err)
		}
		if n := status.Metrics.Cursor.Open.Total; n != 0 {
			t.Errorf("%d cursors are left open", n)
		}
	}
}

// connection returns a connection without a session, so that the test decides which connection sends what.
func connection(t *testing.T, addr string) *conn {
	t.Helper()
	raw, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	return &conn{Conn: raw, in: bufio.NewReader(raw)}
}

func (c *conn) mustAsk(t *testing.T, command bson.D) []byte {
	t.Helper()
	body, err := bson.Marshal(append(command, bson.E{Key: "$db", Value: "shop"}))
	if err != nil {
		t.Fatal(err)
	}
	reply, err := c.ask(body, nil, nil)
	if err != nil || failure(reply) != "" {
		t.Fatal(err, bson.Raw(reply))
	}
	return reply
}

func openCursor(t *testing.T, addr string) int64 {
	t.Helper()
	reply := connection(t, addr).mustAsk(t, bson.D{{Key: "find", Value: "c"}, {Key: "sort", Value: m{"_id": -1}}, {Key: "batchSize", Value: 10}})
	return cursorOf(reply)
}

// readOver reads three batches of a cursor over a connection of its own, and kills the cursor.
func readOver(t *testing.T, addr string, cursor int64) {
	t.Helper()
	c := connection(t, addr)
	for range 3 {
		c.mustAsk(t, bson.D{{Key: "getMore", Value: cursor}, {Key: "collection", Value: "c"}, {Key: "batchSize", Value: 10}})
	}
	c.mustAsk(t, bson.D{{Key: "killCursors", Value: "c"}, {Key: "cursors", Value: bson.A{cursor}}})
}

// When reads are sampled, a cursor's batches are sent if its query was.
func TestSampledCursors(t *testing.T) {
	b := newBench(t, "", func(c *shadow.Config) { c.Reads = 0.5 })
	c := b.client(t).Database("shop").Collection("c")
	for i := range 30 {
		_, _ = c.InsertOne(t.Context(), m{"_id": i})
	}
	for range 20 {
		drain(t.Context(), c.Find, m{}, options.Find().SetSort(m{"_id": 1}).SetBatchSize(10))
	}
	if r := b.settle(t); r.Skipped == 0 || r.Skipped >= 80 || r.Compared.Diverged > 0 {
		t.Errorf("%d reads left out, %+v", r.Skipped, r.Compared)
	}
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

// A retried write that production had executed is not executed twice.
func TestRetriedWrite(t *testing.T) {
	b := newBench(t, "rs0", nil)
	c := b.client(t)
	s, err := c.StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.EndSession(t.Context())
	again := bson.D{
		{Key: "update", Value: "c"},
		{Key: "txnNumber", Value: int64(7)},
		{Key: "updates", Value: bson.A{m{"q": m{"_id": 1}, "u": m{"$inc": m{"n": 1}}, "upsert": true}}},
	}
	for range 3 {
		if err := c.Database("shop").RunCommand(mongo.NewSessionContext(t.Context(), s), again).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if r := b.settle(t); r.Left["retried writes that had been executed"] != 2 {
		t.Errorf("left out: %v", r.Left)
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

// With stopped targets, clients are not affected, memory stays within its bound, and pieces that do not fit
// are counted.
func TestFrozenTargets(t *testing.T) {
	b := newBench(t, "", func(c *shadow.Config) { c.Memory, c.OffTime = 4*shadow.MiB, time.Second })
	for _, s := range []*mongotest.Server{b.control, b.test} {
		if err := syscall.Kill(s.Pid(), syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Kill(s.Pid(), syscall.SIGCONT) })
	}
	c := b.client(t, options.Client().SetMaxPoolSize(1)).Database("shop").Collection("c")
	for i := range 1000 {
		if _, err := c.InsertOne(t.Context(), m{"_id": i, "text": strings.Repeat("v", 10_000)}); err != nil {
			t.Fatal(err)
		}
	}
	if held := b.run.Held(); held > 4*shadow.MiB {
		t.Errorf("%d bytes are held", held)
	}
	b.run.Off("enough")
	<-b.run.Over()
	if r := b.run.Report(); r.Dropped == 0 || r.Ended != "enough" {
		t.Errorf("%d connections dropped, ended: %q", r.Dropped, r.Ended)
	}
	if _, err := c.InsertOne(t.Context(), m{"_id": "after"}); err != nil {
		t.Errorf("with the mirror off: %v", err)
	}
}

// A killed target voids the run and turns the mirror off. Production continues.
func TestKilledTarget(t *testing.T) {
	b := servers(t, "")
	b.test = mongotest.Start(t, mongotest.Config{})
	b.start(t, func(c *shadow.Config) { c.Patience = time.Second })
	c := b.client(t).Database("shop").Collection("c")
	b.test.Kill()
	n := 0
	testenv.Eventually(t, "the mirror is off", func() bool {
		n++
		if _, err := c.InsertOne(t.Context(), m{"_id": n}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-b.run.Over():
			return true
		default:
			return false
		}
	})
	if r := b.run.Report(); r.Outcome != "VOID" || len(r.Reasons) == 0 {
		t.Errorf("%s: %q", r.Outcome, r.Reasons)
	}
	if _, err := c.InsertOne(t.Context(), m{"_id": "after"}); err != nil {
		t.Error(err)
	}
}

// A document that differs at a target is found, and its collection is named without showing data.
func TestDifferentData(t *testing.T) {
	b := newBench(t, "", nil)
	c := b.client(t).Database("shop").Collection("users")
	_, _ = c.InsertOne(t.Context(), m{"_id": 1, "name": "secret"})
	direct := b.test.Client(t).Database("shop").Collection("users")
	testenv.Eventually(t, "the write has come", func() bool {
		n, _ := direct.CountDocuments(t.Context(), m{})
		return n == 1
	})
	_, _ = direct.UpdateOne(t.Context(), m{"_id": 1}, m{"$set": m{"name": "secrets"}})
	_ = c.FindOne(t.Context(), m{"_id": 1})
	shadowtest.FindsOne(t, b.run, "find shop.users {_id}", "secret")
}

// Clients log in to production; the mirror logs in to targets with their own users, by either mechanism.
func TestLogins(t *testing.T) {
	for mechanism, password := range map[string]string{"SCRAM-SHA-256": "t:ü", "SCRAM-SHA-1": "t"} {
		t.Run(mechanism, func(t *testing.T) { logins(t, mechanism, password) })
	}
}

// logins runs with a test server that requires logins; production accepts them without requiring any.
func logins(t *testing.T, mechanism, password string) {
	b := &bench{production: server1(t, "", "production"), control: server1(t, "", "control"), test: locked(t)}
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
	s := server1(t, "", "production")
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
