package mongo

import (
	"errors"
	"net"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/trace"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// session is one client and its upstream connection. It carries requests itself; replies have a
// pump that never waits for the other one.
type session struct {
	*gateway.Life
	stats *gateway.Stats

	in       reader
	req      request // the one at hand
	tracing  tracing
	door     gateway.Door // that the client passes by logging in
	pending  pending
	logins   *logins
	sides    *sides
	hellos   *hellos
	rewriter *rewriter
	toServer sender
	toClient sender

	balancer *balancer
	follower follower

	cfg *Config // the gateway's

	out *replyPump
}

func newSession(g *Gateway, client, upstream net.Conn, member int) *session {
	s := &session{stats: g.cfg.Stats, logins: g.logins, balancer: g.balancer, sides: newSides(g.pairs)}
	s.Life = gateway.NewLife(gateway.LifeConfig{
		Client: client, Upstream: upstream, Requests: g.requests, Replies: g.replies,
		Stall: g.cfg.Stall, Grace: g.cfg.Grace, Begin: g.cfg.Begin, Stats: g.cfg.Stats, Log: g.cfg.Log,
	})
	s.tracing.by, s.tracing.gateway, s.tracing.server = g.cfg.Tracer, g.cfg.Name, g.cfg.upstreams()[member].Address
	s.cfg = &g.cfg
	s.pending.init()
	s.door.Keeper = &g.keeper
	s.follower = follower{member: member, session: s}
	s.toServer = sender{conn: upstream, peer: gateway.FromUpstream, account: s.Requests}
	s.toClient = sender{conn: client, peer: gateway.FromClient, account: s.Replies}
	s.in = reader{Inbound: gateway.Inbound{Conn: client, Peer: gateway.FromClient, Ctx: s.Context(), Account: s.Requests, Door: &s.door}, pair: &s.sides.fromClient}
	s.rewriter = &rewriter{compression: g.compression, sides: s.sides}
	s.hellos = &hellos{
		rules: g.rules, sides: s.sides, logins: g.logins, addresses: g.addresses, balancer: g.balancer, follower: &s.follower,
		client: client, peers: g.cfg.Peers,
	}
	s.out = &replyPump{
		in:     reader{Inbound: gateway.Inbound{Conn: upstream, Peer: gateway.FromUpstream, Ctx: s.Context(), Account: s.Replies}, pair: &s.sides.fromServer, pace: gateway.PaceOf(upstream)},
		client: &s.toClient, door: &s.door, pending: &s.pending, sides: s.sides, hellos: s.hellos,
		recoder: recoder{compression: g.compression, sides: s.sides}, balancer: g.balancer, follower: &s.follower,
	}
	return s
}

// Run pumps until both sides are done.
func (s *session) Run() {
	defer s.free()
	defer s.balancer.followers.remove(&s.follower)
	s.Life.Run(s.carryRequests, s.carryReplies)
}

// free gives back what both ends have of other gateways, when both pumps have ended, and ends what waited for replies.
func (s *session) free() {
	<-s.Dead()
	s.sides.free()
	s.tracing.open.End()
}

// carryRequests ends the session when the client ends and waits for nothing; otherwise its replies
// are let through. Who waits for documents that may never come is told when a drain does not wait for them any more.
func (s *session) carryRequests() {
	s.pumpRequests()
	waiting := s.waiting()
	if len(waiting) == 0 && s.pending.busy() {
		s.PassEnd()
		return
	}
	for _, id := range waiting {
		_ = s.Client.SetWriteDeadline(time.Now().Add(goodbye))
		_ = s.toClient.send(replyTo(wire.Header{RequestID: id, OpCode: wire.OpMsg}, interrupted()), false)
	}
	s.Part()
	_ = s.Close()
}

// goodbye is how long a client has to take a last reply.
const goodbye = time.Second

// waiting are the client's requests when a drain does not wait for their replies any more.
func (s *session) waiting() []int32 {
	if !s.Overdue() {
		return nil
	}
	return s.pending.awaiting()
}

// idle reports that a drain may end the session.
func (s *session) idle() bool { return !s.pending.busy() || len(s.waiting()) > 0 }

func (s *session) carryReplies() {
	defer s.pending.close()
	s.logEnd(gateway.FromUpstream, s.out.run())
}

// pumpRequests carries requests until the client ends or an error.
func (s *session) pumpRequests() {
	defer s.in.Free()
	for {
		s.BeforeRequest()
		m, err := s.in.next()
		if err == nil {
			s.Requested()
			err = s.handleRequest(m)
		}
		if err != nil && !s.GoesOn(err, s.idle()) {
			s.logEnd(gateway.FromClient, err)
			return
		}
	}
}

// handleRequest sends one message of the client's upstream.
func (s *session) handleRequest(m message) error {
	if m.paired.Dictionary {
		return s.sides.fromClient.take(m.bytes, &m.paired)
	}
	began := time.Now()
	c := s.tracing.begin(began, s.in.Waited)
	err := s.carryRequest(&m, began, c)
	if err != nil {
		broken(c, err)
	} else if !s.req.answered {
		c.End("")
	}
	return err
}

// carryRequest is handleRequest for one whose trace is c.
func (s *session) carryRequest(m *message, began time.Time, c *trace.Command) error {
	r := &s.req
	whole, pooled, err := s.sides.open(&s.sides.fromClient, m)
	if err != nil {
		return err
	}
	defer gateway.PutBuffer(pooled)
	r.wire, r.message, r.header, r.came = m.bytes, whole, m.header, m.came
	if err := r.parse(); err != nil {
		return err
	}
	s.tracing.parsed(c, r, began, m.opening)
	if mechanism, err := s.logins.check(r); mechanism != "" || err != nil {
		return s.refuseLogin(mechanism, err, c)
	}
	switch {
	case r.traits&isHello != 0:
		return s.sendHello(m.held, c)
	case r.traits&asksGateway != 0 && r.answered:
		return s.answerGateway(c)
	}
	deciding := c.Now()
	d := s.rewriter.decide(r)
	defer d.free()
	s.tracing.sends(c, &d, deciding)
	if r.answered {
		e := d.exchange(r, m.paired.Wants)
		e.sent, e.spent, e.trace = began, time.Since(began), c
		if !s.push(e, m.held) {
			return net.ErrClosed
		}
	}
	s.rewriter.topics.measure(r.topic, policy.Request, r.message, s.sides.crossed(m.bytes, d.bytes), began)
	return s.send(d.bytes, m.held, c)
}

// send sends a request upstream. Nothing comes back for one that is not answered: then it is over.
func (s *session) send(b []byte, held bool, c *trace.Command) error {
	if !s.req.answered {
		c.Asks()
	}
	return s.toServer.send(b, held)
}

// refuseLogin answers a login that may not pass, unless it can't be read.
func (s *session) refuseLogin(mechanism string, err error, c *trace.Command) error {
	if err != nil {
		return err
	}
	c.End("login_refused")
	s.logins.note(s.Client, mechanism)
	if !s.req.answered {
		return nil
	}
	return s.toClient.send(s.logins.refusal(s.req.header, mechanism), false)
}

// answerGateway tells Cinch's commands that this is a gateway. Where the server asks for a login, only clients that have
// logged in are told what is behind it.
func (s *session) answerGateway(c *trace.Command) error {
	c.End("")
	behind := s.cfg.Behind
	if s.door.Stranger(s.Context()) {
		behind = ""
	}
	return s.toClient.send(replyTo(s.req.header, ofGateway(s.cfg.Name, behind)), false)
}

// sendHello sends a client's hello upstream.
func (s *session) sendHello(held bool, c *trace.Command) error {
	out, h, err := s.hellos.request(&s.req)
	if err != nil {
		return err
	}
	defer gateway.PutBuffer(out)
	s.tracing.sends(c, &decision{bytes: out}, time.Time{})
	if s.req.answered && !s.push(exchange{id: s.req.header.RequestID, client: plain, hello: h, trace: c}, held) {
		return net.ErrClosed
	}
	return s.send(out, held, c)
}

// push queues an exchange. A client that takes no replies waits here, but not with memory
// that others want.
func (s *session) push(e exchange, held bool) bool {
	return s.pending.push(e, func() {
		if held {
			s.Requests.Await(gateway.FromClient)
		}
	}, func() { s.Requests.Awaited(gateway.FromClient) })
}

// logEnd says once why a conversation was broken off, if not in the usual way.
func (s *session) logEnd(who gateway.Peer, err error) {
	if errors.Is(err, errNotPrimary) {
		s.stats.Error("not_primary")
		return
	}
	s.LogEnd(who, errorClasses.Of(err), err)
}

// Authenticated implements gateway.Authenticator.
func (s *session) Authenticated() bool { return s.door.Passed() }
