package mongo

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// say has a client send a command, and production answer it. It returns the operations that this completes.
func say(t *testing.T, r shadow.Reader, at time.Time, command bson.D) []*shadow.Operation {
	t.Helper()
	body, err := bson.Marshal(command)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Request(appendMsg(nil, 1, body, nil, nil), at); err != nil {
		t.Fatal(err)
	}
	reply := appendMsg(nil, 2, fine, nil, nil)
	binary.LittleEndian.PutUint32(reply[8:], 1)
	done, err := r.Reply(reply, at)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// inSession returns a command of a session's transaction.
func inSession(session string, starts bool, command ...bson.E) bson.D {
	command = append(command, bson.E{Key: "$db", Value: "shop"}, bson.E{Key: "lsid", Value: bson.D{{Key: "id", Value: session}}},
		bson.E{Key: "txnNumber", Value: int64(1)}, bson.E{Key: "autocommit", Value: false})
	if starts {
		command = append(command, bson.E{Key: "startTransaction", Value: true})
	}
	return command
}

func insertOf(session string) bson.D {
	return inSession(session, true, bson.E{Key: "insert", Value: "things"}, bson.E{Key: "documents", Value: bson.A{bson.D{{Key: "_id", Value: session}}}})
}

// Open transactions are bounded in number. Those that clients have left open make room after a time.
func TestOpenTransactionsAreBounded(t *testing.T) {
	p := &Protocol{transactions: newTransactions(), cursors: cursors{}}
	r, began := p.Reader(), time.Now()
	for i := range maxTransactions {
		if done := say(t, r, began, insertOf(fmt.Sprint(i))); len(done) > 0 {
			t.Fatalf("transaction %d: %+v", i, done[0])
		}
	}
	later := began.Add(transactionTime)
	if done := say(t, r, later, insertOf("one more")); len(done) != 1 || done[0].SkipReason == "" || len(p.transactions.open) != maxTransactions {
		t.Errorf("%d are open, after %v", len(p.transactions.open), done)
	}
	commit := func(session string) bson.D {
		return inSession(session, false, bson.E{Key: "commitTransaction", Value: 1})
	}
	if done := say(t, r, later, commit("0")); len(done) != 1 || done[0].SkipReason != "" {
		t.Errorf("the first one: %v", done)
	}
	later = later.Add(1)
	if done := say(t, r, later, insertOf("after the first one")); len(done) > 0 {
		t.Errorf("in its place: %+v", done[0])
	}
	if done := say(t, r, later, insertOf("after a time")); len(done) > 0 || len(p.transactions.open) != 2 {
		t.Errorf("after a time: %v, %d are open", done, len(p.transactions.open))
	}
	if done := say(t, r, later, commit("after a time")); len(done) != 1 || done[0].SkipReason != "" || p.transactions.bytes >= maxTransactionBytes {
		t.Errorf("its end: %v", done)
	}
}

// The bytes of transactions that clients have left open do not keep out all later ones.
func TestBytesOfOpenTransactions(t *testing.T) {
	p := &Protocol{transactions: newTransactions(), cursors: cursors{}}
	r, began := p.Reader(), time.Now()
	say(t, r, began, insertOf("left open"))
	for _, tx := range p.transactions.open {
		p.add(tx, nil, maxTransactionBytes)
	}
	if done := say(t, r, began.Add(transactionTime), insertOf("soon")); len(done) != 1 || done[0].SkipReason == "" {
		t.Errorf("beside it: %v", done)
	}
	if done := say(t, r, began.Add(transactionTime+1), insertOf("after a time")); len(done) > 0 || len(p.transactions.open) != 1 {
		t.Errorf("after a time: %v, %d are open", done, len(p.transactions.open))
	}
}

// A retried write is recognized, however many other sessions write meanwhile, up to half of the bound.
func TestRetriedAmongManySessions(t *testing.T) {
	all := newTransactions()
	write := func(session int) bool { return all.retried(&request{session: fmt.Sprint(session), transaction: 1}) }
	const before = maxSessions/2 - 1
	for i := range 2 * maxSessions {
		if write(i) {
			t.Fatalf("the write of session %d counts as retried", i)
		}
		if i >= before && !write(i-before) {
			t.Fatalf("the write of session %d does not count as retried after session %d", i-before, i)
		}
	}
}

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
	b := &bench{production: startServer(t, "rs0", "production"), control: startServer(t, "", "control"), test: startServer(t, "", "test")}
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
