package mongo

import (
	"bytes"
	"errors"
	"io"
	"net"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// How long to wait before the server is asked again who it is.
const (
	firstMeet   = time.Second
	lastMeet    = 30 * time.Second
	meetTimeout = 5 * time.Second
)

// meet asks the server by which name its replica set knows it, so that clients of other
// members' gateways hear of this one before it has a client of its own. It tries until there
// is an answer.
func (g *Gateway) meet() {
	for wait := firstMeet; ; wait = min(2*wait, lastMeet) {
		d, err := g.askWho(g.cfg.Upstream)
		if err == nil {
			g.noteMember(d)
			close(g.met)
			return
		}
		select {
		case <-g.ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (g *Gateway) noteMember(d described) {
	if d.me == "" {
		return
	}
	g.learnMember(d.me)
	if a := g.advertised.Load(); a != nil {
		host := a.Host
		if host == "" {
			host = "THIS_HOST"
		}
		g.cfg.Log.Info("the server is a member of a replica set; drivers find all members that have a gateway from here with",
			"uri", "mongodb://"+net.JoinHostPort(host, a.Port)+"/?replicaSet="+d.set, "member", d.me)
	}
}

// askWho sends a hello on a connection of its own, for which no credentials are needed.
func (g *Gateway) askWho(up gateway.Upstream) (d described, err error) {
	doc, err := g.askHello(up)
	if err != nil {
		return d, err
	}
	if d, err = describe(doc); err == nil && !d.ok {
		err = errNoHello
	}
	return d, err
}

// askHello returns the document of the answer.
func (g *Gateway) askHello(up gateway.Upstream) (doc []byte, err error) {
	up.Stats = nil // not a client's traffic
	c, err := up.Dial(g.ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(meetTimeout))
	if _, err = c.Write(helloRequest()); err != nil {
		return nil, err
	}
	r := reader{Inbound: gateway.Inbound{Conn: c, Ctx: g.ctx}}
	defer r.Free()
	m, err := r.next()
	if err != nil {
		return nil, err
	}
	at, err := wire.ParseReply(m.bytes)
	if err == nil && at.Len == 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	return bytes.Clone(at.Of(m.bytes)), nil
}

var errNoHello = errors.New("the server does not say who it is")

// helloRequest is an isMaster in the form that every server understands. It offers what
// gateways agree on: a gateway tells another one the member's own name.
func helloRequest() []byte {
	b := wire.AppendHeader(nil, wire.Header{RequestID: 1, OpCode: wire.OpQuery})
	b = append(b, 0, 0, 0, 0)
	b = append(b, "admin.$cmd\x00"...)
	b = append(b, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff)
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	b = bsoncore.AppendInt32Element(b, "isMaster", 1)
	b = bsoncore.AppendBooleanElement(b, "helloOk", true)
	b = appendCompression(b, []wire.CompressorID{wire.BetweenGateways}, nil)
	b = wire.FinishDocument(b, start)
	wire.PutLength(b)
	return b
}
