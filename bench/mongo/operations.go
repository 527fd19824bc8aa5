package main

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// operation is a measured operation. prepare does the work that is not measured; the i-th run differs from
// all others.
type operation struct {
	name    string
	prepare func(i int) (run func() error)
}

// operationNames lists the operations in the order of the tables.
var operationNames = []string{"find 100", "find 10", "find 1", "insert 100", "insert 1", "update", "ping"}

// Indexes into operationNames.
const (
	opFind100   = 0
	opInsert100 = 3
	opInsert1   = 4
	opUpdate    = 5
)

// operations returns the operations of one client, in that order. Finds ask for stored users of the second
// half; the first half fills the history of a link. Inserts create new users.
func (b *bench) operations(c *mongo.Client) []operation {
	db, ctx := c.Database("shop"), context.Background()
	coll, copies := db.Collection("users"), db.Collection("copies")
	find := func(n int) func(int) func() error {
		return func(i int) func() error { return func() error { return find(coll, measured(i), n) } }
	}
	prepare := []func(i int) func() error{
		find(100), find(10), find(1),
		func(int) func() error {
			docs := b.fresh(100)
			return func() error { _, err := copies.InsertMany(ctx, docs); return err }
		},
		func(int) func() error {
			doc := b.fresh(1)[0]
			return func() error { _, err := copies.InsertOne(ctx, doc); return err }
		},
		func(i int) func() error {
			filter, change := bson.D{{Key: "seq", Value: measured(i)}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "visits", Value: 1}}}}
			return func() error { _, err := coll.UpdateOne(ctx, filter, change); return err }
		},
		func(int) func() error {
			return func() error { return db.RunCommand(ctx, bson.D{{Key: "ping", Value: 1}}).Err() }
		},
	}
	ops := make([]operation, len(prepare))
	for i, f := range prepare {
		ops[i] = operation{operationNames[i], f}
	}
	return ops
}

// repeat runs the operation n times.
func (op operation) repeat(from, n int) error {
	for i := range n {
		if err := op.prepare(from + i)(); err != nil {
			return err
		}
	}
	return nil
}

// measured returns the number of a user in the second half.
func measured(i int) int { return stored/2 + i*37%(stored/2-100) }

// fresh returns n users that have not been used before.
func (b *bench) fresh(n int) []any {
	b.used += n
	docs := users(stored+b.used-n, n)
	for i, d := range docs {
		raw, err := bson.Marshal(d)
		if err != nil {
			panic(err) // can't happen: the documents are literals
		}
		docs[i] = bson.Raw(raw)
	}
	return docs
}

func find(coll *mongo.Collection, from, n int) error {
	filter := bson.D{{Key: "seq", Value: bson.D{{Key: "$gte", Value: from}}}}
	o := options.Find().SetLimit(int64(n)).SetSort(bson.D{{Key: "seq", Value: 1}}).SetBatchSize(int32(n + 1))
	cursor, err := coll.Find(context.Background(), filter, o)
	if err != nil {
		return err
	}
	var all []bson.Raw
	return cursor.All(context.Background(), &all)
}
