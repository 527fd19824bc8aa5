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
	for _, g := range []*testenv.GatewayServer{near, far} {
		if n := g.Metric(t, "cinch_mongo_pair_connections_total"); n == 0 {
			t.Error("the gateways have not agreed")
		}
	}
	if raw, stored := near.Metric(t, "cinch_value_raw_bytes_total"), near.Metric(t, "cinch_value_stored_bytes_total"); raw < 3*stored {
		t.Errorf("%v bytes became %v", raw, stored)
	}
	if sent, _ := server.Compressed(t, "zstd"); sent != before {
		t.Errorf("mongod has compressed %+v for the gateway beside it", sent)
	}
}

// Dictionaries are trained and used with the settings of a file, and all metrics show it.
func TestPairDictionaries(t *testing.T) {
	const (
		soon = "training: {min_samples: 200, poll: 100ms, interval: 1h, cpu: 90%}"
		rule = "- {setting: zstd-3, min_size: 0, dictionary: auto}"
	)
	server := standalone(t)
	start := func(upstream, settings string) *testenv.GatewayServer {
		return testenv.Gateway(t, testenv.GatewayConfig{Protocol: "mongo", Upstream: upstream, Settings: settings, Rules: rule, Process: soon})
	}
	far := start("mongodb://"+server.Addr, "peers: true")
	near := start("mongodb://"+far.Addr, "sample: true")
	coll := connect(t, "mongodb://"+near.Addr+"/?directConnection=true").Database("shop").Collection("things")
	ready := func(g *testenv.GatewayServer) bool { return strings.Contains(g.Output(), "messages have a dictionary") }
	received := func() float64 {
		return near.Metric(t, "cinch_mongo_pair_dictionaries_total")
	}
	for i := 0; !ready(far) || !ready(near) || received() < 2; i++ {
		if i == 20_000 {
			t.Fatal("no dictionaries")
		}
		if _, err := coll.InsertOne(t.Context(), documents(i + 1)[i]); err != nil {
			t.Fatal(err)
		}
		if err := coll.FindOne(t.Context(), bson.D{{Key: "_id", Value: i}}).Err(); err != nil {
			t.Fatal(err)
		}
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
		if k.Messages > 0 && k.Bytes > 0 && len(k.Estimates) > 0 {
			measured[k.Method+" "+k.Direction] = true
		}
	}
	for _, want := range []string{"shop.things insert request", "shop.things insert reply", "shop.things find request", "shop.things find reply"} {
		if !measured[want] {
			t.Errorf("%s is not measured: %v", want, measured)
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
		if sessions(t, near) == 3 {
			return
		}
	}
	t.Errorf("%d of 3 members were reached through the pair", sessions(t, near))
}

// sessions returns the number of gateways that have decompressed messages of their peer.
func sessions(t *testing.T, g *testenv.GatewayServer) (n int) {
	t.Helper()
	for i := range 3 {
		name := `cinch_mongo_pair_messages_total{gateway="mongo`
		if i > 0 {
			name += fmt.Sprintf("-%d", i+1)
		}
		if g.Metric(t, name+`",outcome="opened"}`) > 0 {
			n++
		}
	}
	return n
}
