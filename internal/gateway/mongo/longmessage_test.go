package mongo

import (
	"math/rand/v2"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// A long message passes two gateways of one process, both of which hold it.
func TestLongMessagesThroughTwoGateways(t *testing.T) {
	server := standalone(t)
	requests, replies := memory.NewBudget(64<<20), memory.NewBudget(64<<20)
	shared := func(name string) func(*Config) {
		return func(c *Config) { c.Name, c.Requests, c.Replies = name, requests, replies }
	}
	far := serve(t, server.Addr, withZstd, peers, shared("far"))
	near := serve(t, far.addr, withZstd, shared("near"))
	noise := make([]byte, 15<<20)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(noise)
	coll := connect(t, near.uri()).Database("test").Collection("long")
	if _, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}, {Key: "v", Value: noise}}); err != nil {
		t.Fatalf("%v; %+v", err, requests.Use())
	}
	var got bson.Raw
	if err := coll.FindOne(t.Context(), bson.D{}).Decode(&got); err != nil {
		t.Fatalf("%v; %+v", err, replies.Use())
	}
	if n := near.stats.Snapshot().Errors["stalled"] + far.stats.Snapshot().Errors["stalled"]; n != 0 {
		t.Errorf("%d were cut off", n)
	}
}
