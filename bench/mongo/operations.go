package main

import (
	"context"
	"sync/atomic"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// operation is a measured operation. prepare does the work that is not measured, for one run.
type operation struct {
	name    string
	prepare func() (run func() error)
}

// operationNames lists the operations in the order of the tables.
var operationNames = []string{"find 100", "find 10", "find 1", "insert 100", "insert 1", "update", "ping"}

// Indexes into operationNames.
const (
	opFind100 = 0
	opInsert1 = 4
)

// operations returns the operations of one client, in that order. Finds and updates take stored users from
// unread. Inserts create new users.
func (b *bench) operations(c *mongo.Client, unread *unread) []operation {
	db, ctx := c.Database("shop"), context.Background()
	coll, copies := db.Collection("users"), db.Collection("copies")
	find := func(n int) func() func() error {
		return func() func() error {
			from := unread.take(n)
			return func() error { return find(coll, from, n) }
		}
	}
	prepare := []func() func() error{
		find(100), find(10), find(1),
		func() func() error {
			docs := b.fresh(100)
			return func() error { _, err := copies.InsertMany(ctx, docs); return err }
		},
		func() func() error {
			doc := b.fresh(1)[0]
			return func() error { _, err := copies.InsertOne(ctx, doc); return err }
		},
		func() func() error {
			filter, change := bson.D{{Key: "seq", Value: unread.take(1)}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "visits", Value: 1}}}}
			return func() error { _, err := coll.UpdateOne(ctx, filter, change); return err }
		},
		func() func() error {
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
func (op operation) repeat(n int) error {
	for range n {
		if err := op.prepare()(); err != nil {
			return err
		}
	}
	return nil
}

// unread hands out the numbers of stored users of one half, in order, so that no link still has them in its history:
// when it begins again, links have carried 10 MB since, and a history holds 8 MiB.
type unread struct {
	first int // number of the half's first user
	taken atomic.Int64
}

// take returns the first of n users that follow each other.
func (u *unread) take(n int) int {
	return u.first + int(u.taken.Add(int64(n))-int64(n))%(stored/2-100)
}

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
