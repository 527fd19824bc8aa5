package mongo

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/shadowtest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// frame returns a message with any header.
func frame(length int32, opCode int32, body ...byte) []byte {
	out := binary.LittleEndian.AppendUint32(nil, uint32(length))
	out = append(out, 1, 0, 0, 0, 0, 0, 0, 0)
	return append(binary.LittleEndian.AppendUint32(out, uint32(opCode)), body...)
}

const (
	opMsg, opCompressed, opQuery = 2013, 2012, 2004
)

// hostile are requests for which the server may disconnect the client.
var hostile = map[string][]byte{
	"no protocol":                         []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
	"bytes":                               bytes.Repeat([]byte{0, 255, 13, 10, 221, 7}, 20_000),
	"a huge length":                       frame(1<<31-1, opMsg, bytes.Repeat([]byte("x"), 100_000)...),
	"a length below zero":                 frame(-1, opMsg),
	"a length that is nothing":            frame(0, opMsg),
	"no body":                             frame(16, opMsg),
	"unknown flags":                       frame(26, opMsg, 255, 255, 255, 255, 0, 5, 0, 0, 0, 0),
	"a document beyond its message":       frame(26, opMsg, 0, 0, 0, 0, 0, 255, 255, 255, 127, 0),
	"a compressed message that is a bomb": frame(30, opCompressed, 221, 7, 0, 0, 255, 255, 255, 127, 2, 1, 2, 3, 4, 5),
	"an unknown compressor":               frame(30, opCompressed, 221, 7, 0, 0, 16, 0, 0, 0, 99, 1, 2, 3, 4, 5),
	"half a message":                      frame(1000, opMsg, 0, 0, 0, 0, 0),
	"a question of servers long ago":      frame(40, opQuery, bytes.Repeat([]byte{0}, 24)...),
	"nothing":                             nil,
}

// Clients that send garbage and disconnect at any time: other clients are served and mirrored, and memory
// stays within its bound.
func TestHostileClients(t *testing.T) {
	const memory = 32 * shadow.MiB
	b := newBench(t, "", func(c *shadow.Config) { c.Memory = memory })
	haveGone := shadowtest.Strangers(t, b.addr, 10, hostile)
	c := b.client(t).Database("shop").Collection("c")
	for i := range 200 {
		if _, err := c.UpdateOne(t.Context(), m{"_id": i % 10}, m{"$inc": m{"n": 1}}, options.UpdateOne().SetUpsert(true)); err != nil {
			t.Fatal(err)
		}
	}
	haveGone()
	if held := b.run.Held(); held > memory*6/5 {
		t.Errorf("%d bytes are held", held)
	}
	b.undisturbed(t, 200)
}

// undisturbed ends a run in which at least least operations were compared, none of them different or lost.
func (b *bench) undisturbed(t *testing.T, least uint64) {
	t.Helper()
	shadowtest.Undisturbed(t, b.run, least)
	same(t, b.production, b.control)
	same(t, b.production, b.test)
}

// Some clients request much and read nothing, others disconnect in the middle of a transaction: the rest
// continue, and targets get no uncommitted data.
func TestClientsThatLeave(t *testing.T) {
	const memory = 32 * shadow.MiB
	b := newBench(t, "rs0", func(c *shadow.Config) { c.Memory = memory })
	ctx := t.Context()
	c := b.client(t).Database("shop").Collection("c")
	if _, err := c.InsertOne(ctx, m{"_id": "large", "text": strings.Repeat("v", 1<<20)}); err != nil {
		t.Fatal(err)
	}
	question, err := bson.Marshal(bson.D{{Key: "find", Value: "c"}, {Key: "filter", Value: m{"_id": "large"}}, {Key: "$db", Value: "shop"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		slow, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer slow.Close()
		if _, err := slow.Write(bytes.Repeat(appendMsg(nil, 1, question, nil, nil), 40)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		leave(t, b.addr, i)
	}
	for i := range 100 {
		if _, err := c.InsertOne(ctx, m{"_id": i}); err != nil {
			t.Fatal(err)
		}
		if held := b.run.Held(); held > memory*6/5 {
			t.Fatalf("%d bytes are held", held)
		}
	}
	r := shadowtest.Finish(t, b.run)
	if c := r.Compared; c.Different > 0 || c.Lost != [2]uint64{} {
		t.Errorf("%s %q %+v", r.Outcome, r.Reasons, c)
	}
	if n, err := b.test.Client(t).Database("shop").Collection("c").CountDocuments(ctx, m{}); err != nil || n != 101 {
		t.Errorf("the target has %d documents, %v", n, err)
	}
}

// leave begins a transaction, writes in it, and disconnects.
func leave(t *testing.T, addr string, id int) {
	t.Helper()
	c, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + addr + "/?directConnection=true").SetServerSelectionTimeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.StartSession()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.StartTransaction(); err != nil {
		t.Fatal(err)
	}
	in := mongo.NewSessionContext(t.Context(), s)
	if _, err := c.Database("shop").Collection("c").InsertOne(in, m{"_id": fmt.Sprint("left", id)}); err != nil {
		t.Error(err)
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.Disconnect(gone)
}

// Two hundred concurrent clients, and a storm of connections that are used once.
func TestManyConnections(t *testing.T) {
	testenv.Full(t)
	b := newBench(t, "", nil)
	const clients, each = 200, 4
	c := b.client(t, options.Client().SetMaxPoolSize(clients)).Database("shop").Collection("c")
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			for i := range each {
				if _, err := c.InsertOne(t.Context(), m{"_id": n*each + i}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 8 {
		all.Go(func() {
			for range 50 {
				if err := shadowtest.Stranger(b.addr, frame(16, opMsg)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	b.undisturbed(t, clients*each)
}
