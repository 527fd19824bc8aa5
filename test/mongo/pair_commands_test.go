package mongo

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/cinch-layer/cinch/test/testenv"
)

// TestPairCommands runs the two commands of docs/MONGODB.md.
func TestPairCommands(t *testing.T) {
	server := standalone(t)
	before, _ := server.Compressed(t, "zstd")
	far := serve(t, "mongodb://"+server.Addr+"/?peers=true", "", "")
	near := serve(t, "mongodb://"+far.Addr, "", "")
	coll := connect(t, "mongodb://"+near.Addr+"/?directConnection=true").Database(t.Name()).Collection("things")
	if _, err := coll.InsertMany(t.Context(), documents(500)); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		var got struct{ Text string }
		if err := coll.FindOne(t.Context(), bson.D{{Key: "_id", Value: i}}).Decode(&got); err != nil || !strings.Contains(got.Text, fmt.Sprintf("number %d ", i)) {
			t.Fatal(got, err)
		}
	}
	for name, g := range map[string]*testenv.GatewayServer{"near": near, "far": far} {
		if n := g.Metric(t, "cinch_link_streams_total"); n == 0 {
			t.Errorf("the %s gateway has begun no history", name)
		}
	}
	if raw, stored := near.Metric(t, "cinch_value_raw_bytes_total"), near.Metric(t, "cinch_value_stored_bytes_total"); raw < 3*stored {
		t.Errorf("%v bytes became %v", raw, stored)
	}
	if sent, _ := server.Compressed(t, "zstd"); sent != before {
		t.Errorf("mongod has compressed %+v for the gateway beside it", sent)
	}
}

// The option history says whether there are links. The gateway warns if all clients share them.
func TestPairHistory(t *testing.T) {
	server := standalone(t)
	far := serve(t, "mongodb://"+server.Addr+"/?peers=true", "", "")
	for history, links := range map[string]bool{"client": true, "shared": true, "none": false} {
		t.Run(history, func(t *testing.T) {
			near := serve(t, "mongodb://"+far.Addr+"/?history="+history, "", "")
			coll := connect(t, "mongodb://"+near.Addr+"/?directConnection=true").Database("histories").Collection(history)
			if _, err := coll.InsertMany(t.Context(), documents(100)); err != nil {
				t.Fatal(err)
			}
			if n := near.Metric(t, "cinch_link_streams_total"); (n > 0) != links {
				t.Errorf("%v histories were begun", n)
			}
			if warned := strings.Contains(near.Output(), "CRIME"); warned != (history == "shared") {
				t.Errorf("warned of a shared history: %v", warned)
			}
		})
	}
}

// With sample: true the near gateway measures what it sends over links, in both directions.
func TestPairIsMeasured(t *testing.T) {
	server := standalone(t)
	far := serve(t, "mongodb://"+server.Addr+"/?peers=true", "", "")
	near := serve(t, "mongodb://"+far.Addr, "sample: true", "- {setting: zstd-3}")
	coll := connect(t, "mongodb://"+near.Addr+"/?directConnection=true").Database("shop").Collection("things")
	const n = 20
	for i, d := range documents(n) {
		if _, err := coll.InsertOne(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if err := coll.FindOne(t.Context(), bson.D{{Key: "_id", Value: i}}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if near.Metric(t, "cinch_link_streams_total") == 0 {
		t.Error("not over a link")
	}
	var gateways []struct {
		Messages []struct {
			Method, Direction string
			Messages, Bytes   uint64
			Estimates         []struct{ Ratio float64 }
		}
	}
	testenv.AdminJSON(t, near.Admin, "/api/messages", &gateways)
	measured := map[string]bool{}
	for _, k := range gateways[0].Messages {
		if k.Messages == n && k.Bytes > 0 && len(k.Estimates) > 0 {
			measured[k.Method+" "+k.Direction] = true
		}
	}
	for _, want := range []string{"shop.things insert request", "shop.things insert reply", "shop.things find request", "shop.things find reply"} {
		if !measured[want] {
			t.Errorf("%s is not measured: %+v", want, gateways)
		}
	}
}

// A replica set with a pair for each member: drivers use only the near gateways, whatever names the members
// have.
func TestPairReplicaSet(t *testing.T) {
	var fars []string
	for _, s := range replicaSet(t) {
		fars = append(fars, serve(t, "mongodb://"+s.Addr+"/?peers=true", "", "").Addr)
	}
	near := serve(t, "mongodb://"+strings.Join(fars, ","), "", "")
	// A driver chooses among the secondaries within its local threshold; an hour includes all.
	c := connect(t, "mongodb://"+near.Addr+"/?replicaSet=rs0&w=majority&localThresholdMS=3600000")
	if _, err := c.Database(t.Name()).Collection("things").InsertMany(t.Context(), documents(100)); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(2 * time.Minute)
	for time.Now().Before(deadline) {
		for _, mode := range []*readpref.ReadPref{readpref.Primary(), readpref.Secondary()} {
			if err := c.Ping(t.Context(), mode); err != nil {
				t.Fatal(err)
			}
		}
		if linked(t, near) == 3 {
			return
		}
	}
	t.Errorf("%d of 3 members were reached over links", linked(t, near))
}

// linked returns the number of a process's gateways for three members that have received replies with history.
func linked(t *testing.T, g *testenv.GatewayServer) (n int) {
	t.Helper()
	for i := range 3 {
		name := "mongo"
		if i > 0 {
			name += fmt.Sprintf("-%d", i+1)
		}
		if g.Metric(t, fmt.Sprintf("cinch_values_opened_total{codec=\"zstd\",gateway=%q}", name)) > 0 {
			n++
		}
	}
	return n
}
