package mongo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// Requests of the gateway itself to servers. Each uses its own connection that doesn't log in: the gateway
// has no credentials, and these requests need none.

// Wait before a server that has not answered is asked again; it doubles from minAskWait to maxAskWait.
const (
	minAskWait = time.Second
	maxAskWait = 30 * time.Second
	askTimeout = 5 * time.Second // for one request
)

// askUntil calls ask until it succeeds. It returns false if ctx ends first.
func askUntil(ctx context.Context, ask func() error) bool {
	for wait := minAskWait; ; wait = min(2*wait, maxAskWait) {
		if ask() == nil {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
	}
}

// ask sends a request to a server on a new connection, and returns the reply.
func ask(ctx context.Context, up endpoint.Upstream, request []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var reply []byte
	err := up.WithConn(ctx, func(c net.Conn) error {
		if _, err := c.Write(request); err != nil {
			return err
		}
		r := reader{Inbound: gateway.Inbound{Conn: c, Ctx: ctx}}
		defer r.Free()
		m, err := r.next()
		reply = bytes.Clone(m.received)
		return err
	})
	return reply, err
}

// askIdentity asks a server for its name in its replica set, and whether it is primary.
func askIdentity(ctx context.Context, up endpoint.Upstream) (d helloReply, err error) {
	doc, err := askHello(ctx, up)
	if err != nil {
		return d, err
	}
	if d, err = parseHelloReply(doc); err == nil && !d.ok {
		err = errNoHello
	}
	return d, err
}

var errNoHello = errors.New("the server's reply to hello does not name it")

// askHello returns the document of a server's reply to hello.
func askHello(ctx context.Context, up endpoint.Upstream) (doc []byte, err error) {
	reply, err := ask(ctx, up, helloRequest())
	if err != nil {
		return nil, err
	}
	at, err := wire.ParseReply(reply)
	if err == nil && at.Len == 0 {
		err = io.ErrUnexpectedEOF
	}
	return at.Of(reply), err
}

// helloRequest returns an isMaster as OP_QUERY, the form that every server understands. It says that the client is a
// gateway. A gateway replies with the member's own name, and says whether it accepts links.
func helloRequest() []byte {
	b := wire.AppendHeader(nil, wire.Header{RequestID: 1, OpCode: wire.OpQuery})
	b = append(b, 0, 0, 0, 0)
	b = append(b, "admin.$cmd\x00"...)
	b = append(b, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff)
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	b = bsoncore.AppendInt32Element(b, "isMaster", 1)
	b = bsoncore.AppendBooleanElement(b, "helloOk", true)
	b = appendCompression(b, nil, true)
	b = wire.FinishDocument(b, start)
	wire.PutLength(b)
	return b
}

// codeUnauthorized is the error code of a server that requires a login first.
const codeUnauthorized = 13

// RequiresLogin reports whether the first of the servers that answers requires a login. It asks for the list of
// databases, which a server without logins sends to every client.
func RequiresLogin(ctx context.Context, ups []endpoint.Upstream) (required bool, err error) {
	for _, up := range ups {
		var reply []byte
		if reply, err = ask(ctx, up, listDatabases()); err == nil {
			if required, err = isUnauthorized(reply); err == nil {
				return required, nil
			}
		}
	}
	return false, err
}

func isUnauthorized(reply []byte) (is bool, err error) {
	var m wire.Msg
	if err = m.Parse(reply); err != nil {
		return false, err
	}
	err = wire.Elements(m.Body.Of(reply), func(e wire.Element) bool {
		if string(e.Key) == "code" {
			n, isNumber := e.Value.AsInt64OK()
			is = isNumber && n == codeUnauthorized
		}
		return true
	})
	return is, err
}

func listDatabases() []byte {
	b := wire.AppendHeader(nil, wire.Header{RequestID: 1, OpCode: wire.OpMsg})
	b = append(b, 0, 0, 0, 0, 0) // flags, and the section kind
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	b = bsoncore.AppendInt32Element(b, "listDatabases", 1)
	b = bsoncore.AppendBooleanElement(b, "nameOnly", true)
	b = bsoncore.AppendStringElement(b, "$db", "admin")
	b = wire.FinishDocument(b, start)
	wire.PutLength(b)
	return b
}
