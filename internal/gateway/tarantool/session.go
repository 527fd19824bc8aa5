package tarantool

import (
	"bytes"
	"io"
	"net"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/trace"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// session is one client and its upstream connection. It reads requests and has each handled in the way
// that its row of the table says.
type session struct {
	*gateway.Life
	g *Gateway

	in  reader
	req request // the one at hand

	tracing tracing
	trace   *trace.Command // of the one at hand; nil: none

	transactions map[uint64]struct{} // streams with one that has begun; of the request pump
	watching     shutdownWatch

	talk     *conversation
	identity *identity
	retrier  *retrier
	pipe     *pipe

	out *replyPump
}

func newSession(g *Gateway, client, upstream net.Conn) *session {
	s := &session{g: g}
	s.Life = gateway.NewLife(gateway.LifeConfig{
		Client: client, Upstream: upstream, Requests: g.requests, Replies: g.replies,
		Stall: g.cfg.Stall, Grace: g.cfg.Grace, Stats: g.cfg.Stats, Log: g.cfg.Log,
	})
	s.tracing.by, s.tracing.gateway, s.tracing.server = g.cfg.Tracer, g.cfg.Name, g.cfg.Upstream.Address
	s.talk = newConversation(s.Life, g.catalog, g.cfg.Stats)
	s.identity = &identity{door: &gateway.Door{Keeper: &g.keeper}}
	s.in = reader{Inbound: gateway.Inbound{Conn: client, Peer: gateway.FromClient, Ctx: s.Context(), Account: s.Requests, Door: s.identity.door, Idle: s.talk.toServer.flush}, copies: 2}
	s.pipe = &pipe{talk: s.talk, client: client, upstream: upstream}
	s.retrier = &retrier{
		talk: s.talk, rewriter: g.rewriter, statements: g.statements, identity: s.identity,
		splicer: &splicer{talk: s.talk, vault: g.vault, room: s.Requests, ctx: s.Context(), client: client.RemoteAddr()},
		ctx:     s.Context(), end: func() { _ = s.Close() }, log: g.cfg.Log,
	}
	opener := &opener{vault: g.vault, room: s.Replies, ctx: s.Context(), flush: s.talk.toClient.flush, stall: g.cfg.Stall, client: client.RemoteAddr()}
	s.out = &replyPump{
		in:   reader{Inbound: gateway.Inbound{Conn: upstream, Peer: gateway.FromUpstream, Ctx: s.Context(), Account: s.Replies, Idle: s.talk.toClient.flush}, copies: 1},
		talk: s.talk, opener: opener, steps: &stepReader{opener: opener, room: s.Requests, stats: g.cfg.Stats},
		identity: s.identity, retrier: s.retrier, pipe: s.pipe, watching: &s.watching,
	}
	return s
}

// Run pumps until both sides are done.
func (s *session) Run() {
	defer s.tracing.open.End()
	s.Life.Run(s.carryRequests, s.carryReplies)
}

// carryRequests passes the client's end of input on at once: the server then does with the
// connection what it does with a client of its own.
func (s *session) carryRequests() {
	s.pumpRequests()
	s.End()
	_ = s.talk.toServer.flush()
	s.PassEnd()
	<-s.Dead()
	_ = gateway.Abort(s.Upstream) // nobody reads what is still to be sent
	s.retrier.background.Wait()
}

// carryReplies carries replies until the server ends or an error.
func (s *session) carryReplies() {
	defer s.talk.outstanding.close()
	defer s.out.free()
	err := s.out.run()
	s.LogEnd(gateway.FromUpstream, errorClasses.Of(err), err)
	if !s.Ended() {
		s.g.catalog.lost() // the server may have been started anew
	}
}

// pumpRequests carries requests until the client ends or an error.
func (s *session) pumpRequests() {
	defer s.in.Free()
	for {
		s.sayShutdown()
		s.BeforeRequest()
		f, err := s.in.next()
		if err == nil {
			s.Requested()
			err = s.handleRequest(&f)
		}
		if err != nil && !s.GoesOn(err, s.idle()) {
			s.LogEnd(gateway.FromClient, errorClasses.Of(err), err)
			return
		}
	}
}

// handleRequest sends one frame of the client's upstream, or answers it.
func (s *session) handleRequest(f *frame) error {
	began := time.Now()
	r := &s.req
	r.bytes = f.body()
	if err := r.header.Parse(r.bytes); err != nil {
		return s.talk.toServer.write(f.bytes) // what the server says to it can't be known
	}
	s.follow(&r.header)
	h := handlingOf(r.header.Type)
	s.trace = s.tracing.begin(r.header.Type, h, began, s.in.Waited)
	switch h {
	case passes:
		return s.pass(f, began)
	case pings:
		if bytes.Equal(r.bytes[r.header.Map.End():], wire.GatewayQuestion) {
			return s.answerGateway()
		}
		return s.pass(f, began)
	case oneWay:
		s.watching.note(r)
		return s.talk.toServer.write(f.bytes)
	case replicate:
		return s.replicate(f)
	default:
		return s.handleBody(f, h, began)
	}
}

// answerGateway tells Cinch's commands, which must go to the server itself, that this is a gateway. Where guest may do
// nothing, only clients that have logged in are told what is behind it.
func (s *session) answerGateway() error {
	behind := s.g.cfg.Behind
	if s.identity.door.Stranger(s.Context()) {
		behind = ""
	}
	s.trace.End("")
	return s.talk.toClient.send(wire.AppendGateway(nil, s.req.header.Sync, s.g.catalog.seen.Load(), s.g.cfg.Name, behind))
}

// pass sends a request as it came, but for the stamp that its lane may ask for.
func (s *session) pass(f *frame, began time.Time) error {
	r := &s.req
	var stamp uint64
	if ordered(r.header.Type) || r.header.Type == wire.Auth {
		var ok bool
		// Steps and what is sent again are the old user's.
		if stamp, ok = s.enter(r.header.Schema != 0 || r.header.Type == wire.Auth); !ok {
			return net.ErrClosed
		}
	}
	if r.header.Type == wire.Auth {
		s.identity.asked(r.header.Sync, r.user())
	}
	return s.passStamped(f, stamp, began)
}

// passStamped sends a request as it came, with that stamp if it isn't 0.
func (s *session) passStamped(f *frame, stamp uint64, began time.Time) error {
	if stamp == 0 {
		return s.passAlone(f)
	}
	e := s.exchange(stamp)
	if !s.talk.originals.keep(&e, f, 0) {
		if _, ok := s.enter(true); !ok {
			return net.ErrClosed
		}
		return s.passAlone(f)
	}
	out := s.req.stamped(stamp)
	defer gateway.PutBuffer(out)
	return s.forward(out, e, began)
}

func (s *session) passAlone(f *frame) error {
	return s.submit(s.exchange(0), f.bytes)
}

// exchange is that of the request at hand.
func (s *session) exchange(stamp uint64) exchange {
	return exchange{kind: s.req.header.Type, stream: s.req.header.Stream, stamp: stamp, trace: s.trace}
}

// forward sends what takes the request's place.
func (s *session) forward(out []byte, e exchange, began time.Time) error {
	e.spent = time.Since(began)
	return s.submit(e, out)
}

// submit sends the request at hand, or what takes its place.
func (s *session) submit(e exchange, frame []byte) error {
	return s.talk.submit(s.req.header.Sync, e, frame)
}

// enter waits for the lane of the request at hand.
func (s *session) enter(alone bool) (stamp uint64, ok bool) {
	asked := s.trace.Now()
	stamp, ok = s.talk.enter(s.req.header.Stream, alone)
	queued(s.trace, asked)
	return stamp, ok
}

// handleBody handles a request whose body matters.
func (s *session) handleBody(f *frame, h handling, began time.Time) error {
	r := &s.req
	if err := r.body.Parse(r.bytes, r.header.Map.End()); err != nil {
		return s.refuse(malformed)
	}
	since(s.trace, "parse", began)
	switch h {
	case features:
		return s.handleID(f)
	case sql:
		if no := s.g.statements.check(s.Context(), r); no != nil {
			return s.refuse(no)
		}
		return s.pass(f, began)
	}
	stamp, ok := s.enter(r.header.Schema != 0)
	if !ok {
		return net.ErrClosed
	}
	r.login = s.identity.login()
	asked := s.trace.Now()
	w, no := s.g.rewriter.rewrite(s.Context(), r, h, stamp)
	if no != nil {
		return s.refuse(no)
	}
	if w.need.space != nil {
		return s.park(f)
	}
	if w.bytes == nil {
		return s.passStamped(f, stamp, began)
	}
	since(s.trace, "codec request", asked)
	defer gateway.PutBuffer(w.bytes)
	e := s.exchange(w.stamp)
	if w.stamp != 0 && !s.talk.originals.keep(&e, f, 0) {
		s.g.cfg.Stats.Error("budget")
		if r.magic {
			return s.refuse(noMemory)
		}
		return s.passStamped(f, stamp, began)
	}
	return s.forward(w.bytes, e, began)
}

// refuse answers the request at hand with an error.
func (s *session) refuse(no *refusal) error {
	refused(s.trace, no)
	return s.talk.refuse(s.req.header.Sync, no)
}

// park hands the request at hand to the retrier, which sends it in steps.
func (s *session) park(f *frame) error {
	e := s.exchange(0)
	if !s.talk.originals.keep(&e, f, 3) {
		s.g.cfg.Stats.Error("budget")
		return s.refuse(noMemory)
	}
	if _, ok := s.enter(true); !ok {
		s.talk.originals.drop(&e)
		return net.ErrClosed
	}
	s.retrier.park(s.req.header.Sync, e)
	return nil
}

// handleID sends on what the client understands, without what we do not.
func (s *session) handleID(f *frame) error {
	e := exchange{kind: wire.ID, trace: s.trace}
	out := withoutFeatures(s.req.bytes, &s.req.body)
	if out == nil {
		return s.submit(e, f.bytes)
	}
	defer gateway.PutBuffer(out)
	return s.submit(e, out)
}

// replicate makes the connection one for replication.
func (s *session) replicate(f *frame) error {
	if err := s.pipe.settle(); err != nil {
		return err
	}
	s.pipe.on.Store(true)
	if s.Draining() {
		return s.Close()
	}
	s.g.cfg.Log.Debug("connection is for replication, and passes as it is", "client", s.Client.RemoteAddr().String(), "type", s.req.header.Type)
	return s.pipe.requests(&s.in, f.bytes)
}

// errorClasses are the violations of the protocol.
var errorClasses = gateway.ErrorClasses{
	{gateway.ErrStranger, "stranger"},
	{wire.ErrTooLarge, "too_large"},
	{wire.ErrMalformed, "malformed"},
	{io.ErrUnexpectedEOF, "truncated"},
}

// Authenticated implements gateway.Authenticator.
func (s *session) Authenticated() bool { return s.identity.door.Passed() }
