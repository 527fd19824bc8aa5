package mongo

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// A member whose host has died accepts no connection, or accepts it and stays silent. While the others elect
// a primary, each search for it waits primaryTimeout for that member.
func TestElectionBesideASilentMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		elected := false
		ask := func(ctx context.Context, up endpoint.Upstream) (helloReply, error) {
			if up.Address == "silent" {
				select {
				case <-ctx.Done():
				case <-time.After(time.Minute):
				}
				return helloReply{}, endpoint.ErrUnreachable
			}
			return helloReply{ok: true, isPrimary: elected, electionID: "2"}, nil
		}
		b := &balancer{members: []endpoint.Upstream{{Address: "silent"}, {Address: "other"}}, ctx: t.Context(), ask: ask, heard: heard, electionID: "1"}
		began := time.Now()
		if member, err := b.findPrimary(); !errors.Is(err, errNoPrimary) || time.Since(began) != primaryTimeout {
			t.Errorf("before the election: member %d, %v, after %v", member, err, time.Since(began))
		}
		time.Sleep(primaryPause)
		elected, began = true, time.Now()
		if member, err := b.findPrimary(); err != nil || member != 1 || time.Since(began) != 0 {
			t.Errorf("after the election: member %d, %v, after %v", member, err, time.Since(began))
		}
	})
}

// A session whose server has stepped down reports that without waiting for a search that is running, even one
// that waits for a silent member: the session has further replies of its server to forward.
func TestSearchesDontHoldUpReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := func(ctx context.Context, up endpoint.Upstream) (helloReply, error) {
			<-ctx.Done()
			return helloReply{}, endpoint.ErrUnreachable
		}
		b := &balancer{members: []endpoint.Upstream{{Address: "silent"}}, ctx: t.Context(), ask: ask, heard: heard}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = b.findPrimary()
		}()
		synctest.Wait()
		began := time.Now()
		b.forgetPrimary(0) // blocked here when it needed the lock that a search holds
		if waited := time.Since(began); waited != 0 {
			t.Errorf("it waited for %v", waited)
		}
		<-ended
	})
}

// Clients reach the primary beside a member that accepts connections and stays silent.
func TestPrimaryBesideASilentMember(t *testing.T) {
	silent, elected := listen(t), listen(t)
	go func() {
		for {
			c, err := elected.Accept()
			if err != nil {
				return
			}
			go answerAsPrimary(c)
		}
	}()
	member := func(l net.Listener) endpoint.Upstream {
		return endpoint.Upstream{Network: "tcp", Address: l.Addr().String(), Host: "127.0.0.1"}
	}
	s := serve(t, "", nil, func(c *Config) { c.Members = []endpoint.Upstream{member(silent), member(elected)} })
	raw := dialRaw(t, s.addr)
	if a := raw.run(plain, append(hello(), bson.E{Key: "loadBalanced", Value: true})); !a.ok() {
		t.Error(a.doc)
	}
}

// answerAsPrimary answers one hello.
func answerAsPrimary(c net.Conn) {
	defer c.Close()
	r := reader{Inbound: gateway.Inbound{Conn: c, Ctx: context.Background()}}
	defer r.Free()
	m, err := r.next()
	if err != nil {
		return
	}
	body, _ := bson.Marshal(bson.D{{Key: "isWritablePrimary", Value: true}, {Key: "ok", Value: 1}})
	b := wire.AppendHeader(nil, wire.Header{RequestID: 1, ResponseTo: m.header.RequestID, OpCode: wire.OpReply})
	b = append(append(b, make([]byte, 16)...), 1, 0, 0, 0)
	b = append(b, body...)
	wire.PutLength(b)
	_, _ = c.Write(b)
	_, _ = r.next() // until the other end closes
}

// heard ignores the replies of members.
func heard(int, helloReply) {}
