package mongo

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// A member whose host has died takes connections no more, or takes them and says nothing.
// That must not hide who becomes primary meanwhile.
func TestPrimaryBesideASilentMember(t *testing.T) {
	t.Parallel() // members have two seconds to answer
	silent := listen(t)
	asked := atomic.Int64{}
	elected := listen(t)
	go func() {
		for {
			c, err := elected.Accept()
			if err != nil {
				return
			}
			go answerAsMember(c, &asked)
		}
	}()
	member := func(l net.Listener) gateway.Upstream {
		return gateway.Upstream{Network: "tcp", Address: l.Addr().String(), Host: "127.0.0.1"}
	}
	s := serve(t, "", nil, func(c *Config) { c.Members = []gateway.Upstream{member(silent), member(elected)} })
	raw := dialRaw(t, s.addr)
	if a := raw.run(plain, append(hello(), bson.E{Key: "loadBalanced", Value: true})); !a.ok() {
		t.Error(a.doc)
	}
}

// answerAsMember answers one hello, as a primary from the second time on.
func answerAsMember(c net.Conn, asked *atomic.Int64) {
	defer c.Close()
	r := reader{Inbound: gateway.Inbound{Conn: c, Ctx: context.Background()}}
	defer r.Free()
	m, err := r.next()
	if err != nil {
		return
	}
	body, _ := bson.Marshal(bson.D{{Key: "isWritablePrimary", Value: asked.Add(1) > 1}, {Key: "ok", Value: 1}})
	b := wire.AppendHeader(nil, wire.Header{RequestID: 1, ResponseTo: m.header.RequestID, OpCode: wire.OpReply})
	b = append(append(b, make([]byte, 16)...), 1, 0, 0, 0)
	b = append(b, body...)
	wire.PutLength(b)
	_, _ = c.Write(b)
	_, _ = r.next() // until the other end is done
}
