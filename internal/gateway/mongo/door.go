package mongo

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// codeUnauthorized is what a server answers that asks for a login first.
const codeUnauthorized = 13

// askClosed asks the server, on a connection that doesn't log in, for something that it tells
// everybody unless it asks for a login.
func (g *Gateway) askClosed(ctx context.Context) (closed bool, err error) {
	ups := g.cfg.Members
	if len(ups) == 0 {
		ups = []gateway.Upstream{g.cfg.Upstream}
	}
	for _, up := range ups {
		if closed, err = askClosed(ctx, up); err == nil {
			return closed, nil
		}
	}
	return false, err
}

func askClosed(ctx context.Context, up gateway.Upstream) (closed bool, err error) {
	up.Stats = nil // not a client's traffic
	c, err := up.Dial(ctx)
	if err != nil {
		return false, err
	}
	defer c.Close()
	if at, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(at)
	}
	if _, err = c.Write(listDatabases()); err != nil {
		return false, err
	}
	r := reader{Inbound: gateway.Inbound{Conn: c, Ctx: ctx}}
	defer r.Free()
	m, err := r.next()
	if err != nil {
		return false, err
	}
	var reply wire.Msg
	if err = reply.Parse(m.bytes); err != nil {
		return false, err
	}
	err = wire.Elements(reply.Body.Of(m.bytes), func(e wire.Element) bool {
		if string(e.Key) == "code" {
			n, isNumber := e.Value.AsInt64OK()
			closed = isNumber && n == codeUnauthorized
		}
		return true
	})
	return closed, err
}

func listDatabases() []byte {
	b := wire.AppendHeader(nil, wire.Header{RequestID: 1, OpCode: wire.OpMsg})
	b = append(b, 0, 0, 0, 0, 0) // flags, and the kind of the section
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	b = bsoncore.AppendInt32Element(b, "listDatabases", 1)
	b = bsoncore.AppendBooleanElement(b, "nameOnly", true)
	b = bsoncore.AppendStringElement(b, "$db", "admin")
	b = wire.FinishDocument(b, start)
	wire.PutLength(b)
	return b
}

// passDoor lets the client in when the reply to its login says so.
func (s *session) passDoor(code wire.OpCode, body []byte) {
	at := s.reply.Body
	if code == wire.OpReply {
		var err error
		if at, err = wire.ParseReply(body); err != nil {
			return
		}
	}
	doc, done := at.Of(body), true // authenticate has one step
	_ = wire.Elements(doc, func(e wire.Element) bool {
		if string(e.Key) == "done" {
			done, _ = e.Value.BooleanOK()
		}
		return true
	})
	if done && saysOK(doc) {
		s.door.Pass()
	}
}
