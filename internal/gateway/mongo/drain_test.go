package mongo

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
	"github.com/cinch-layer/cinch/test/testenv"
)

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

// A drain ends the sessions of drivers' monitors before it ends others, which until then get replies: a driver that has
// lost its monitor's connection uses no other one of that server again.
func TestDrainEndsMonitorsFirst(t *testing.T) {
	tap := taped(t)
	s := serve(t, tap.addr, nil, func(c *Config) { c.MonitorLead = time.Hour })
	pooled := dialRaw(t, s.addr)
	pooled.run(plain, hello())
	monitor := dialRaw(t, s.addr)
	version := monitor.run(plain, hello()).doc.Lookup("topologyVersion").Document()
	monitor.send(plain, 0, append(hello(), bson.E{Key: "topologyVersion", Value: version}, bson.E{Key: "maxAwaitTimeMS", Value: 60000}))
	testenv.Eventually(t, "the server has the hello", func() bool { return tap.hasSeen("maxAwaitTimeMS") })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(ctx) }()
	_ = monitor.conn.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := monitor.tryReceive(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the monitor outlived the begin of the drain: %v", err)
	}
	if a := pooled.run(plain, command("ping", 1)); !a.ok() {
		t.Errorf("%+v", a)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
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
