package tarantool

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	store "github.com/cinch-layer/cinch/internal/store/tarantool"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// session is one client and its upstream connection. Each pump owns its own section; what
// both use is atomic or locked.
type session struct {
	g          *Gateway
	client     net.Conn
	upstream   net.Conn
	toClient   sink
	toServer   sink
	pending    pending
	dead       chan struct{}   // closed when the reply pump has ended
	ctx        context.Context // ends with the session
	cancel     context.CancelFunc
	draining   atomic.Bool
	ended      atomic.Bool  // the client has ended its side
	piped      atomic.Bool  // the connection is another protocol's from here on
	door       gateway.Door // that the client passes by logging in, or by what guests may do
	identity   identity
	closing    sync.Once
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
	s := &session{g: g, client: client, upstream: upstream, dead: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.door.Keeper = &g.keeper
	s.in = reader{Inbound: gateway.Inbound{Conn: client, Peer: gateway.FromClient, Ctx: s.ctx, Door: &s.door, Idle: s.toServer.flush}, copies: 2}
	s.in.Account = g.requests.Account(gateway.PayerOf(client), s.stream(client, upstream))
	s.toServer = sink{conn: upstream, peer: gateway.FromUpstream, account: s.in.Account}
	s.out = reader{Inbound: gateway.Inbound{Conn: upstream, Peer: gateway.FromUpstream, Ctx: s.ctx, Idle: s.toClient.flush}, copies: 1}
	s.out.Account = g.replies.Account(gateway.PayerOf(client), s.stream(upstream, client))
	s.toClient = sink{conn: client, peer: gateway.FromClient, account: s.out.Account}
	s.pending.init(s.in.Account, s.out.Account)
	return s
}

func (s *session) stream(from, to net.Conn) *gateway.Stream {
	return &gateway.Stream{From: from, To: to, Client: s.client, Limit: s.g.cfg.Stall, Stats: s.g.cfg.Stats, Log: s.g.cfg.Log}
}

// Run pumps until both sides are done. The client's end of input is passed on at once: the
// server then does with the connection what it does with a client of its own.
func (s *session) Run() {
	defer s.in.Account.Close()
	defer s.out.Account.Close()
	defer s.Close()
	go s.runReplies()
	s.pumpRequests()
	s.ended.Store(true)
	_ = s.toServer.flush()
	_ = gateway.CloseWrite(s.upstream)
	<-s.dead
	_ = gateway.Abort(s.upstream) // nobody reads what is still to be sent
	s.background.Wait()
}

func (s *session) runReplies() {
	defer gateway.CatchPanic(s.g.cfg.Log, s.g.cfg.Stats, func() { _ = s.Close() })
	defer close(s.dead)
	// A server whose replies nobody reads may stop reading too, in the middle of a request.
	defer func() { _ = s.upstream.SetWriteDeadline(time.Now().Add(s.g.cfg.Stall)) }()
	defer s.client.Close() // unblocks the request pump
	defer s.pending.close()
	s.pumpReplies()
	if !s.ended.Load() {
		s.g.catalog.lost() // the server may have been started anew
	}
}

// Close cuts both connections.
func (s *session) Close() error {
	s.closing.Do(func() {
		s.cancel()
		_ = gateway.Abort(s.client)
		_ = gateway.Abort(s.upstream)
	})
	return nil
}

// Drain wakes the request pump, which stops at the next place between frames where no reply is
// outstanding. Replication has no such place, and starts again by itself.
func (s *session) Drain() {
	s.draining.Store(true)
	if s.piped.Load() {
		_ = s.Close()
		return
	}
	_ = s.client.SetReadDeadline(time.Now())
}

// drainPoll is how often a draining session looks whether it is idle.
const drainPoll = 20 * time.Millisecond

// pumpRequests carries requests until the client ends or an error.
func (s *session) pumpRequests() {
	defer s.in.Free()
	looked := false // draining, and found nothing to do
	for {
		if s.draining.Load() {
			_ = s.client.SetReadDeadline(time.Now().Add(drainPoll))
		}
		f, err := s.in.next()
		if err == nil {
			looked = false
			err = s.handleRequest(&f)
		}
		switch {
		case err == nil:
		case s.draining.Load() && errors.Is(err, os.ErrDeadlineExceeded):
			if idle := !s.pending.busy(); idle && looked {
				return
			} else {
				looked = idle
			}
		default:
			s.logEnd(gateway.FromClient, err)
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

// logEnd says once why a conversation was broken off, if not in the usual way.
func (s *session) logEnd(who gateway.Peer, err error) {
	gateway.LogEnd(s.g.cfg.Log, s.g.cfg.Stats, s.client, who, errorClass(err), err)
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
