package tarantool

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/gateway"
	store "github.com/cinch-layer/cinch/internal/store/tarantool"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// session is one client and its upstream connection. Each pump owns its own section; what
// both use is atomic or locked.
type session struct {
	*gateway.Life
	g          *Gateway
	client     net.Conn
	upstream   net.Conn
	toClient   sink
	toServer   sink
	pending    pending
	piped      atomic.Bool  // the connection is another protocol's from here on
	door       gateway.Door // that the client passes by logging in, or by what guests may do
	identity   identity
	background sync.WaitGroup // requests that are sent again, or in several steps
	submitting sync.Mutex     // held while a request is noted and written

	server atomic.Pointer[store.Version] // as it said in its greeting; nil: it has not yet

	// request pump
	in  reader
	req request

	// reply pump
	out    reader
	reply  reply
	schema uint64 // version in the last answer
}

func newSession(g *Gateway, client, upstream net.Conn) *session {
	s := &session{g: g, client: client, upstream: upstream}
	s.Life = gateway.NewLife(gateway.LifeConfig{
		Client: client, Upstream: upstream, Requests: g.requests, Replies: g.replies,
		Stall: g.cfg.Stall, Stats: g.cfg.Stats, Log: g.cfg.Log,
	})
	s.door.Keeper = &g.keeper
	s.in = reader{Inbound: gateway.Inbound{Conn: client, Peer: gateway.FromClient, Ctx: s.Context(), Account: s.Requests, Door: &s.door, Idle: s.toServer.flush}, copies: 2}
	s.toServer = sink{conn: upstream, peer: gateway.FromUpstream, account: s.Requests}
	s.out = reader{Inbound: gateway.Inbound{Conn: upstream, Peer: gateway.FromUpstream, Ctx: s.Context(), Account: s.Replies, Idle: s.toClient.flush}, copies: 1}
	s.toClient = sink{conn: client, peer: gateway.FromClient, account: s.Replies}
	s.pending.init(s.Requests, s.Replies)
	return s
}

// Run pumps until both sides are done.
func (s *session) Run() { s.Life.Run(s.carryRequests, s.carryReplies) }

// carryRequests passes the client's end of input on at once: the server then does with the
// connection what it does with a client of its own.
func (s *session) carryRequests() {
	s.pumpRequests()
	s.End()
	_ = s.toServer.flush()
	s.PassEnd()
	<-s.Dead()
	_ = gateway.Abort(s.upstream) // nobody reads what is still to be sent
	s.background.Wait()
}

func (s *session) carryReplies() {
	defer s.pending.close()
	s.pumpReplies()
	if !s.Ended() {
		s.g.catalog.lost() // the server may have been started anew
	}
}

// Drain cuts replication off, which has no place between requests, and starts again by itself.
func (s *session) Drain() {
	s.BeginDrain()
	if s.piped.Load() {
		_ = s.Close()
		return
	}
	s.Life.Drain()
}

// pumpRequests carries requests until the client ends or an error.
func (s *session) pumpRequests() {
	defer s.in.Free()
	for {
		s.BeforeRequest()
		f, err := s.in.next()
		if err == nil {
			s.Requested()
			err = s.handleRequest(&f)
		}
		if err != nil && !s.GoesOn(err, !s.pending.busy()) {
			s.LogEnd(gateway.FromClient, errorClass(err), err)
			return
		}
	}
}

// serverVersion is what the greeting says, zero for nothing.
func (s *session) serverVersion() store.Version {
	if v := s.server.Load(); v != nil {
		return *v
	}
	return store.Version{}
}

// errorClass names a violation of the protocol; an ordinary end has none.
func errorClass(err error) string {
	switch {
	case errors.Is(err, gateway.ErrStranger):
		return "stranger"
	case errors.Is(err, wire.ErrTooLarge):
		return "too_large"
	case errors.Is(err, wire.ErrMalformed):
		return "malformed"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "truncated"
	}
	return ""
}
