package mongo

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A client that declares a large message and sends only its header and little more takes no memory. One that
// has sent a part of it and stalls is disconnected when others want its memory; package gateway tests that it
// is not disconnected before.
func TestStalledClient(t *testing.T) {
	_, tap := between(t)
	s := serve(t, tap.addr, withZstd, func(c *Config) {
		c.Requests, c.Stall = memory.NewBudget(1<<20), time.Second
	})
	hostile := dialRaw(t, s.addr)
	hostile.run(plain, hello())
	hostile.write(wire.AppendHeader(nil, wire.Header{Length: wire.MaxMessage, RequestID: 9, OpCode: wire.OpMsg}))
	hostile.write(make([]byte, 8<<10))
	good := dialRaw(t, s.addr)
	good.run(plain, hello())
	insert := command("insert", "things", bson.E{Key: "documents", Value: bson.A{bson.D{{Key: "v", Value: strings.Repeat("abcdefgh", 50000)}}}})
	if a := good.run(plain, insert); !a.ok() {
		t.Fatal(a.doc)
	}
	testenv.Eventually(t, "nothing is held", func() bool { return s.cfg.Requests.InUse() == 0 })
	hostile.write(make([]byte, 1<<20))
	testenv.Eventually(t, "more than the budget is held", func() bool { return s.cfg.Requests.InUse() > 1<<20 })
	if n := s.stats.Snapshot().Errors["stalled"]; n != 0 {
		t.Error("disconnected though no client waited")
	}
	if a := good.run(plain, insert); !a.ok() {
		t.Fatal(a.doc)
	}
	expectClosed(t, s, hostile, "stalled")
}

// A client that reads no replies is disconnected when others want the memory of its replies.
func TestStalledReader(t *testing.T) {
	_, tap := between(t)
	s := serve(t, tap.addr, withSnappy, func(c *Config) {
		c.Replies, c.Stall = memory.NewBudget(1<<20), time.Second
	})
	writer := dialRaw(t, s.addr)
	writer.run(plain, hello())
	insert := command("insert", "large", bson.E{Key: "documents", Value: bson.A{bson.D{{Key: "v", Value: strings.Repeat("abcdefgh", 1<<20)}}}})
	if a := writer.run(plain, insert); !a.ok() {
		t.Fatal(a.doc)
	}
	hostile := dialRaw(t, s.addr)
	_ = hostile.conn.(*net.TCPConn).SetReadBuffer(4096)
	hostile.run(plain, hello())
	for range 3 {
		hostile.send(plain, 0, command("find", "large"))
	}
	testenv.Eventually(t, "something is held", func() bool { return s.cfg.Replies.InUse() > 0 })
	if a := writer.run(plain, command("find", "large")); !a.ok() {
		t.Fatal(a.doc)
	}
	testenv.Eventually(t, "it is cut off", func() bool { return s.stats.Snapshot().Errors["stalled"] == 1 })
}

// A small message that declares a huge uncompressed size takes memory for that size. One such message may
// exceed the budget.
func TestBomb(t *testing.T) {
	_, tap := between(t)
	s := serve(t, tap.addr, withZstd, func(c *Config) {
		c.Requests = memory.NewBudget(4 << 20)
	})
	raw := dialRaw(t, s.addr)
	raw.run(plain, hello("zstd"))
	bomb := raw.compress(wire.Zstd, opMsg(5, 0, command("insert", "x", bson.E{Key: "v", Value: strings.Repeat("\x00", 12<<20)})))
	if len(bomb) > 4096 {
		t.Fatalf("the bomb is %d bytes", len(bomb))
	}
	raw.write(bomb)
	raw.receive()
	if peak := s.cfg.Requests.Use().Peak; peak < 24<<20 || peak > 25<<20 {
		t.Errorf("peak of the budget: %d", peak)
	}
	binary.LittleEndian.PutUint32(bomb[20:], 40<<20)
	raw.write(bomb)
	expectClosed(t, s, raw, "corrupt")
}

// A client that keeps sending without reading replies is blocked, and does not keep memory that others want.
func TestEndlessPipeline(t *testing.T) {
	_, tap := between(t)
	s := serve(t, tap.addr, nil, func(c *Config) {
		c.Requests, c.Stall = memory.NewBudget(1<<20), time.Second
	})
	hostile := dialRaw(t, s.addr)
	hostile.run(plain, hello())
	find := opMsg(1, 0, command("find", "users", bson.E{Key: "comment", Value: strings.Repeat("x", 60000)}))
	go func() {
		for {
			if _, err := hostile.conn.Write(find); err != nil {
				return
			}
		}
	}()
	good := dialRaw(t, s.addr)
	good.run(plain, hello())
	for range 20 {
		if a := good.run(plain, command("find", "users", bson.E{Key: "comment", Value: strings.Repeat("x", 900000)})); !a.ok() {
			t.Fatal(a.doc)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if use := s.cfg.Requests.Use(); use.Peak > 3<<20 { // one message of 1.8 MB may exceed the budget
		t.Errorf("%+v", use)
	}
}

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
