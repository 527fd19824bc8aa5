package mongo

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/internal/gateway"
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

// A drain lets a client that reads slowly get all of a long reply.
func TestDrainInALongReply(t *testing.T) {
	server := standalone(t)
	direct := dialRaw(t, server.Addr)
	if a := direct.run(plain, command("insert", "long", bson.E{Key: "documents", Value: bson.A{bson.D{{Key: "text", Value: strings.Repeat("long ", 3<<20)}}}})); !a.ok() {
		t.Fatal(a.doc)
	}
	s := serve(t, server.Addr, nil)
	c := dialRaw(t, s.addr)
	c.write(opMsg(7, 0, command("find", "long")))
	if err := c.in.Fill(wire.HeaderLen); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		ended <- s.Shutdown(ctx)
	}()
	time.Sleep(10 * gateway.DrainPoll)
	if m, err := c.in.next(); err != nil || m.header.ResponseTo != 7 {
		t.Errorf("the reply: %+v, %v", m.header, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A drain lets a request in flight finish, and ends connections that only wait for the reply to an awaitable
// hello.
func TestDrainAwaitsReplies(t *testing.T) {
	tap := taped(t)
	s := serve(t, tap.addr, nil)
	waiting := dialRaw(t, s.addr)
	version := waiting.run(plain, hello()).doc.Lookup("topologyVersion").Document()
	waiting.send(plain, 0, append(hello(), bson.E{Key: "topologyVersion", Value: version}, bson.E{Key: "maxAwaitTimeMS", Value: 60000}))
	busy := dialRaw(t, s.addr)
	busy.run(plain, hello())
	id := busy.send(plain, 0, bson.D{{Key: "sleep", Value: 1}, {Key: "millis", Value: 700}, {Key: "lock", Value: "none"}, {Key: "$db", Value: "admin"}})
	testenv.Eventually(t, "the server has the request", func() bool { return tap.hasSeen("millis") })
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(t.Context()) }()
	if a := busy.receive(); a.header.ResponseTo != id || !a.ok() {
		t.Errorf("%+v", a)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	_ = waiting.conn.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := waiting.tryReceive(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection outlived the drain: %v", err)
	}
}

// When the grace of a drain is over, a client that waits for documents that may never come gets the error
// InterruptedAtShutdown.
func TestDrainInterruptsAwaitingCursors(t *testing.T) {
	tap := taped(t)
	s := serve(t, tap.addr, nil, func(c *Config) { c.Grace = 10 * gateway.DrainPoll })
	c := dialRaw(t, s.addr)
	c.run(plain, hello())
	c.run(plain, append(command("create", "capped"), bson.E{Key: "capped", Value: true}, bson.E{Key: "size", Value: 4096}))
	c.run(plain, command("insert", "capped", bson.E{Key: "documents", Value: bson.A{bson.D{{Key: "a", Value: 1}}}}))
	found := c.run(plain, command("find", "capped", bson.E{Key: "tailable", Value: true}, bson.E{Key: "awaitData", Value: true}))
	cursor := found.doc.Lookup("cursor", "id").Int64()
	id := c.send(plain, 0, append(command("getMore", cursor), bson.E{Key: "collection", Value: "capped"}, bson.E{Key: "maxTimeMS", Value: 600000}))
	testenv.Eventually(t, "the server has the request", func() bool { return tap.hasSeen("getMore") })
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(t.Context()) }()
	a := c.receive()
	label := a.doc.Lookup("errorLabels", "0").StringValue()
	if code := a.doc.Lookup("code").Int32(); a.header.ResponseTo != id || code != 11600 || label != "ResumableChangeStreamError" {
		t.Errorf("%+v", a)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := c.tryReceive(); err == nil {
		t.Error("the connection outlived the drain")
	}
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
