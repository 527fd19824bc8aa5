package mongo

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// user returns a document of about 345 bytes, like those of the table in docs/MONGODB.md.
func user(i int) bson.D {
	return bson.D{
		{Key: "_id", Value: i},
		{Key: "name", Value: fmt.Sprintf("User %d of the house of %x", i, i*7919)},
		{Key: "email", Value: fmt.Sprintf("user.%d@mail-%d.example.com", i, i%17)},
		{Key: "street", Value: fmt.Sprintf("%d Long Meadow Road, Building %d", i%900, i%40)},
		{Key: "city", Value: []string{"Zürich", "Lisboa", "Porto Alegre", "Nairobi"}[i%4]},
		{Key: "active", Value: i%3 == 0},
		{Key: "visits", Value: int64(i * 31)},
		{Key: "tags", Value: bson.A{"customer", "newsletter", fmt.Sprintf("segment-%d", i%12)}},
		{Key: "note", Value: "prefers to be called in the morning; see ticket history for details"},
	}
}

func users(from, n int) []any {
	docs := make([]any, n)
	for i := range docs {
		docs[i] = user(from + i)
	}
	return docs
}

// exercise runs one operation of each kind that differs on the wire, and checks the results.
func exercise(t *testing.T, c *mongo.Client) {
	t.Helper()
	ctx := t.Context()
	coll := c.Database("shop").Collection(strings.ReplaceAll(t.Name(), "/", "_"))
	_ = coll.Drop(ctx)
	if _, err := coll.InsertMany(ctx, users(0, 300)); err != nil {
		t.Fatal(err)
	}
	cursor, err := coll.Find(ctx, bson.D{}, options.Find().SetBatchSize(100))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for cursor.Next(ctx) {
		want, _ := bson.Marshal(user(n))
		if !bytes.Equal(cursor.Current, want) {
			t.Fatalf("document %d is %v", n, cursor.Current)
		}
		n++
	}
	if n != 300 || cursor.Err() != nil {
		t.Fatalf("%d documents, %v", n, cursor.Err())
	}
	if _, err := coll.UpdateMany(ctx, bson.D{}, bson.D{{Key: "$inc", Value: bson.D{{Key: "visits", Value: 1}}}}); err != nil {
		t.Fatal(err)
	}
	var one struct{ Visits int64 }
	if err := coll.FindOne(ctx, bson.D{{Key: "_id", Value: 7}}).Decode(&one); err != nil || one.Visits != 7*31+1 {
		t.Fatalf("%+v, %v", one, err)
	}
	large := strings.Repeat("a large value that compresses. ", codectest.Amount(40_000, 40_000, 400_000)) // 1 or 12 MB
	if _, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: "large"}, {Key: "v", Value: large}}); err != nil {
		t.Fatal(err)
	}
	var back struct{ V string }
	if err := coll.FindOne(ctx, bson.D{{Key: "_id", Value: "large"}}).Decode(&back); err != nil || back.V != large {
		t.Fatalf("%d bytes of %d, %v", len(back.V), len(large), err)
	}
	if err := c.Ping(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if err := coll.FindOne(ctx, bson.D{{Key: "$nonsense", Value: 1}}).Err(); err == nil {
		t.Fatal("an error of the server's did not arrive")
	}
}

func TestDriverWithEveryCodec(t *testing.T) {
	server := standalone(t)
	for _, gw := range []struct {
		name  string
		rules []policy.MessageRule
	}{{"zstd", withZstd}, {"snappy", withSnappy}, {"zlib", withZlib}, {"auto", withAuto}, {"off", nil}} {
		s := serve(t, server.Addr, gw.rules)
		for _, client := range []string{"", "snappy", "zlib", "zstd"} {
			t.Run("gateway "+gw.name+" client "+client, func(t *testing.T) {
				if gw.name != "zstd" && client != "snappy" {
					testenv.Full(t)
				}
				var with []string
				if client != "" {
					with = append(with, client)
				}
				sentBefore, receivedBefore := server.Compressed(t, gw.name)
				exercise(t, connect(t, s.uri(), with...))
				sent, received := server.Compressed(t, gw.name)
				moved := sent.Out > sentBefore.Out && received.In > receivedBefore.In
				if named := gw.name != "off" && gw.name != "auto"; moved != named {
					t.Errorf("mongod's counters for %s: sent %+v to %+v, received %+v to %+v", gw.name, sentBefore, sent, receivedBefore, received)
				}
			})
		}
	}
}

func TestTransactionsAndStreams(t *testing.T) {
	server := replicaSet(t)
	s := serve(t, server.Addr, withZstd)
	for _, uri := range []string{s.uri(), "mongodb://" + s.addr + "/?replicaSet=rs0", "mongodb://" + s.addr + "/"} {
		t.Run(uri[len("mongodb://"+s.addr):], func(t *testing.T) { transactAndWatch(t, connect(t, uri, "zstd")) })
	}
}

func transactAndWatch(t *testing.T, c *mongo.Client) {
	ctx := t.Context()
	coll := c.Database("shop").Collection("tx")
	_ = coll.Drop(ctx)
	stream, err := coll.Watch(ctx, mongo.Pipeline{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close(context.Background())
	session, err := c.StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(ctx)
	_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		return coll.InsertMany(ctx, users(0, 50))
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if !stream.Next(ctx) {
			t.Fatal(stream.Err())
		}
		if id, _ := stream.Current.Lookup("documentKey", "_id").AsInt64OK(); int(id) != i {
			t.Fatalf("event %d is about %d", i, id)
		}
	}
}
