package mongo

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/test/testenv"
)

// The admin page shows the progress of a training, and the dictionary that it makes.
func TestTrainingIsShown(t *testing.T) {
	t.Parallel()
	server := standalone(t)
	cfg := testenv.GatewayConfig{
		Protocol: "mongo", Rules: "- {name: all, setting: zstd-3, min_gain: 5%, dictionary: auto}",
		Process: testenv.SlowTraining, Upstream: "mongodb://" + server.Addr, Settings: "peers: true",
	}
	far := testenv.Gateway(t, cfg)
	cfg.Upstream, cfg.Settings = "mongodb://"+far.Addr, ""
	near := testenv.Gateway(t, cfg)
	coll, n := connect(t, "mongodb://"+near.Addr+"/?directConnection=true").Database(t.Name()).Collection("readings"), 0
	feed := func() {
		for range 50 {
			if _, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: n}, {Key: "text", Value: testenv.Reading(n)}}); err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	testenv.TrainsVisibly(t, near, feed)
	testenv.HasDictionary(t, near)
}
