package mongo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// fakeMember answers hellos, and everything else with a document that the test sets.
type fakeMember struct {
	l        net.Listener
	primary  atomic.Bool
	election byte
	answer   atomic.Pointer[bson.D]
}

func startMember(t *testing.T, primary bool, election byte) *fakeMember {
	m := &fakeMember{l: listen(t), election: election}
	m.primary.Store(primary)
	m.answer.Store(&bson.D{{Key: "ok", Value: 1}})
	go func() {
		for {
			c, err := m.l.Accept()
			if err != nil {
				return
			}
			go m.serve(c)
		}
	}()
	return m
}

func (m *fakeMember) upstream() endpoint.Upstream {
	return endpoint.Upstream{Network: "tcp", Address: m.l.Addr().String(), Host: "127.0.0.1"}
}

func (m *fakeMember) serve(c net.Conn) {
	defer c.Close()
	r := reader{Inbound: gateway.Inbound{Conn: c, Ctx: context.Background()}}
	defer r.Free()
	for {
		in, err := r.next()
		if err != nil {
			return
		}
		var q request
		q.plain, q.header = in.received, in.header
		if q.parse() != nil {
			return
		}
		doc := *m.answer.Load()
		if q.traits&isHello != 0 {
			doc = bson.D{{Key: "isWritablePrimary", Value: m.primary.Load()}, {Key: "electionId", Value: bson.ObjectID{0: 0x7f, 11: m.election}}, {Key: "ok", Value: 1}}
		}
		b := opMsg(1, 0, doc)
		if in.header.OpCode == wire.OpQuery {
			body, _ := bson.Marshal(doc)
			b = append(wire.AppendHeader(nil, wire.Header{OpCode: wire.OpReply}), make([]byte, 16)...)
			b = append(append(b, 1, 0, 0, 0), body...)
		}
		h, _ := wire.ParseHeader(wire.AppendHeader(nil, wire.Header{Length: len(b), ResponseTo: in.header.RequestID, OpCode: in.header.OpCode}))
		if h.OpCode == wire.OpQuery {
			h.OpCode = wire.OpReply
		}
		if _, err := c.Write(append(wire.AppendHeader(nil, h), b[wire.HeaderLen:]...)); err != nil {
			return
		}
	}
}

// dialBalanced returns a client that connects with loadBalanced=true.
func dialBalanced(t *testing.T, addr string) *rawClient {
	t.Helper()
	raw := dialRaw(t, addr)
	if a := raw.run(plain, append(hello(), bson.E{Key: "loadBalanced", Value: true})); !a.ok() {
		t.Fatal(a.doc)
	}
	return raw
}

// ended waits until the gateway closes the client's connection.
func (c *rawClient) ended() {
	c.t.Helper()
	if _, err := c.tryReceive(); !errors.Is(err, io.EOF) {
		c.t.Errorf("%v, not the end", err)
	}
}

// If a reply shows that a server is no longer primary, all connections to that member end, and clients that
// connect again get to the next primary. The reply is delivered unless the driver retries.
func TestSessionsOfALostPrimaryEnd(t *testing.T) {
	failed := func(code int, more ...bson.E) bson.D {
		return append(bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: code}, {Key: "errmsg", Value: "not primary"}}, more...)
	}
	labels := bson.E{Key: "errorLabels", Value: bson.A{"SystemOverloaded", "RetryableWriteError"}}
	for _, c := range []struct {
		name      string
		reply     bson.D
		command   bson.D
		delivered bool
	}{
		{"a write that is not tried again", failed(10107), command("insert", "users"), true},
		{"a write that is", failed(10107, labels), command("insert", "users"), false},
		{"one whose majority is away", bson.D{{Key: "n", Value: 1}, {Key: "writeConcernError", Value: bson.D{{Key: "code", Value: 189}}}, {Key: "ok", Value: 1}}, command("insert", "users"), true},
		{"a shutdown", failed(91), command("update", "users"), true},
		{"a read", failed(13435), command("find", "users"), false},
		{"a pipeline", failed(11602), command("aggregate", "users", bson.E{Key: "pipeline", Value: bson.A{bson.D{{Key: "$match", Value: bson.D{}}}}}), false},
		{"a pipeline that writes", failed(11602), command("aggregate", "users", bson.E{Key: "pipeline", Value: bson.A{bson.D{{Key: "$out", Value: "x"}}}}), true},
		{"a cursor", failed(11602), command("getMore", int64(1), bson.E{Key: "collection", Value: "users"}), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // a drain gives new sessions two seconds
			first, second := startMember(t, true, 1), startMember(t, false, 2)
			s := serve(t, "", withZstd, func(cfg *Config) { cfg.Members = []endpoint.Upstream{first.upstream(), second.upstream()} })
			client, sibling := dialBalanced(t, s.addr), dialBalanced(t, s.addr)
			if a := sibling.run(plain, command("ping", 1)); !a.ok() {
				t.Fatal(a.doc)
			}
			first.answer.Store(&c.reply)
			first.primary.Store(false)
			second.primary.Store(true)
			if client.send(plain, 0, c.command); c.delivered {
				want, _ := bson.Marshal(c.reply)
				if a := client.receive(); !bytes.Equal(a.doc, want) {
					t.Error(a.doc)
				}
			}
			client.ended()
			sibling.ended()
			if a := dialBalanced(t, s.addr).run(plain, c.command); !a.ok() {
				t.Errorf("the next primary says %v", a.doc)
			}
		})
	}
}

// Other errors end no session.
func TestOtherErrorsEndNothing(t *testing.T) {
	member := startMember(t, true, 1)
	s := serve(t, "", withZstd, func(cfg *Config) { cfg.Members = []endpoint.Upstream{member.upstream()} })
	raw := dialBalanced(t, s.addr)
	for _, reply := range []bson.D{
		{{Key: "ok", Value: 0}, {Key: "code", Value: 11000}},
		{{Key: "ok", Value: 0}, {Key: "code", Value: "10107"}},
		{{Key: "ok", Value: 1}, {Key: "writeConcernError", Value: bson.D{{Key: "code", Value: 64}}}},
		{{Key: "ok", Value: 1}, {Key: "cursor", Value: bson.D{{Key: "firstBatch", Value: bson.A{bson.D{{Key: "code", Value: 10107}}}}}}},
	} {
		member.answer.Store(&reply)
		raw.run(plain, command("insert", "users"))
		raw.run(plain, command("find", "users"))
	}
	if errorCount(s, "not_primary") > 0 {
		t.Error("a member was taken for lost")
	}
}

// A primary that does not know of a later election is not used, and sessions to it end when the newer primary
// is found.
func TestTheLatestElectionCounts(t *testing.T) {
	t.Parallel() // a drain gives new sessions two seconds
	older, newer := startMember(t, true, 1), startMember(t, false, 2)
	s := serve(t, "", withZstd, func(cfg *Config) { cfg.Members = []endpoint.Upstream{older.upstream(), newer.upstream()} })
	client := dialBalanced(t, s.addr)
	newer.primary.Store(true)
	older.primary.Store(false)
	s.balancer.forgetPrimary(0)
	other := dialBalanced(t, s.addr)
	client.ended()
	older.primary.Store(true)
	for range 10 {
		s.balancer.forgetPrimary(1)
		if member, err := s.balancer.findPrimary(); err != nil || member != 1 {
			t.Fatal(member, err)
		}
	}
	newer.primary.Store(false)
	s.balancer.forgetPrimary(1)
	if member, err := s.balancer.findPrimary(); err != nil || member != 0 {
		t.Errorf("the only one that says it is primary is %d, not %d: %v", 0, member, err)
	}
	_ = other.conn.SetDeadline(time.Now().Add(time.Minute))
	other.ended()
}

// An error of a member that is no longer primary ends the session, before or after it is delivered to the
// client.
func TestReplyPumpEndsAtALostPrimary(t *testing.T) {
	lost := bson.D{{Key: "code", Value: 10107}, {Key: "ok", Value: 0}}
	for _, retried := range []bool{false, true} {
		p := newParts(t, nil, endpoint.Upstream{Address: "db0:1"}, endpoint.Upstream{Address: "db1:1"})
		var others [2]drains
		p.g.balancer.sessions.add(&memberSession{session: &others[0]})
		p.g.balancer.sessions.add(&memberSession{session: &others[1], member: 1})
		p.g.balancer.askedAt = time.Now()
		p.pending.push(&exchange{id: 1, replyCompressor: plain, retryable: retried}, nil)
		if err := p.handleReply(answers(lost)); !errors.Is(err, errNotPrimary) {
			t.Error(err)
		}
		if told := p.client.told.Len() > 0; told == retried {
			t.Errorf("retried %v, and the client was told: %v", retried, told)
		}
		if others != [2]drains{1, 0} || p.drains != 0 || !p.g.balancer.askedAt.IsZero() {
			t.Errorf("drained: %v, and itself %d times", others, p.drains)
		}
	}
}

func TestFollowersLeave(t *testing.T) {
	var all memberSessions
	var ended [3]drains
	for i := range ended {
		all.add(&memberSession{member: i, session: &ended[i]})
	}
	gone := &memberSession{member: 0, session: new(drains)}
	all.add(gone)
	all.remove(gone)
	if all.retireOthers(1); ended != [3]drains{1, 0, 1} || gone.stale.Load() {
		t.Errorf("ended %v", ended)
	}
	if all.retireOthers(1); ended != [3]drains{1, 0, 1} {
		t.Errorf("again: %v", ended)
	}
}
