package mongo

import (
	"bufio"
	"net"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/test/mongotest"
)

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
