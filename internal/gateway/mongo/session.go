package mongo

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/trace"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// session serves one client on its own upstream connection. One pump carries requests and one replies; the
// reply pump never waits for the request pump.
type session struct {
	*gateway.PumpedSession
	*compression // the gateway's
	g            *Gateway

	authGate      gateway.AuthGate // limits messages until the client has logged in
	pending       pending
	accepted      atomic.Uint32 // the compressorSet that the server has accepted of the gateway's offer
	offered       atomic.Uint32 // the compressorSet that the client was told in replies to hellos
	nearClient    atomic.Bool   // the client is a gateway
	memberSession memberSession
	tracing       tracing

	// Used by the request pump.
	fromClient        reader
	toServer          sender
	req               request             // the current one
	helloSent         bool                // a handshake was sent
	clientCompressors []wire.CompressorID // compressors that replies to handshakes may show the client

	// Used by the reply pump.
	fromServer reader
	toClient   sender
	reply      reply // the current one
}

func newSession(g *Gateway, client, upstream net.Conn, member int) *session {
	s := &session{g: g, compression: g.compression}
	s.PumpedSession = gateway.NewPumpedSession(gateway.PumpedSessionConfig{
		Client: client, Upstream: upstream, Requests: g.requests, Replies: g.replies,
		Stall: g.cfg.Stall, Grace: g.cfg.Grace, Begin: g.cfg.Begin, Stats: g.cfg.Stats, Log: g.cfg.Log,
	})
	s.tracing.tracer, s.tracing.gateway, s.tracing.server = g.cfg.Tracer, g.cfg.Name, g.cfg.upstreams()[member].Address
	s.pending.init()
	s.authGate.Probe = &g.authProbe
	s.memberSession = memberSession{member: member, session: s.PumpedSession}
	s.toServer = sender{conn: gateway.NewDirectWriter(upstream), stream: streamOf(upstream), peer: memory.FromUpstream}
	s.toClient = sender{conn: gateway.NewDirectWriter(client), stream: streamOf(client), peer: memory.FromClient}
	s.nearClient.Store(s.toClient.stream != nil)
	s.offered.Store(1 << wire.Noop) // noop decompresses nothing, and handshakes have no name for it
	s.fromClient = reader{Inbound: gateway.Inbound{Conn: client, Peer: memory.FromClient, Ctx: s.Context(), Account: s.Requests, AuthGate: &s.authGate}, allowed: &s.offered}
	s.fromServer = reader{Inbound: gateway.Inbound{Conn: upstream, Peer: memory.FromUpstream, Ctx: s.Context(), Account: s.Replies}, pace: gateway.PaceOf(upstream)}
	return s
}

// Run runs both pumps until they have ended.
func (s *session) Run() {
	defer s.free()
	if s.g.balancer != nil {
		defer s.g.balancer.sessions.remove(&s.memberSession)
	}
	s.PumpedSession.Run(s.carryRequests, s.carryReplies)
}

// Drain ends the session between two requests. Sessions of drivers' monitors end first. A driver whose monitor loses
// its connection takes no connection of its pool again, and closes each when it is returned. If its other connections
// ended at the same time, operations would fail on them, and a driver repeats an operation only once.
func (s *session) Drain() {
	if s.pending.awaitsHello() {
		s.PumpedSession.Drain()
		return
	}
	time.AfterFunc(s.g.cfg.MonitorLead, func() {
		defer gateway.CatchPanic(s.g.cfg.Log, s.g.cfg.Stats, func() { _ = s.Close() })
		s.PumpedSession.Drain()
	})
}

// defaultMonitorLead is far longer than a driver needs to notice the end of a connection, also where other processes
// have the processors: at a load of 20 on two cores 0.3 s was too short now and then. Only drivers that have no
// monitor, or keep connections that they don't use, let a drain take that long.
const defaultMonitorLead = 2 * time.Second

// free waits for the reply pump to end, and ends the traces of requests that got no reply.
func (s *session) free() {
	<-s.RepliesDone()
	s.tracing.conn.End()
}

// carryRequests carries requests. When the client ends and no reply is outstanding it ends the session;
// otherwise the outstanding replies are still carried. A client that waits for documents that may never come
// gets an error when a drain no longer waits for it.
func (s *session) carryRequests() {
	s.pumpRequests()
	waiting := s.overdueRequests()
	if len(waiting) == 0 && s.pending.busy() {
		s.CloseUpstreamWrite()
		return
	}
	for _, id := range waiting {
		_ = s.Client.SetWriteDeadline(time.Now().Add(lastReplyTimeout))
		_ = s.toClient.send(replyTo(wire.Header{RequestID: id, OpCode: wire.OpMsg}, shutdownError()), nil)
	}
	s.LingerClose()
	_ = s.Close()
}

// lastReplyTimeout is the timeout for sending a client its last reply.
const lastReplyTimeout = time.Second

// overdueRequests returns the IDs of the requests whose replies a drain no longer waits for.
func (s *session) overdueRequests() []int32 {
	if !s.Overdue() {
		return nil
	}
	return s.pending.awaitingData()
}

// idle reports whether a drain may end the session.
func (s *session) idle() bool { return !s.pending.busy() || len(s.overdueRequests()) > 0 }

func (s *session) carryReplies() {
	defer s.pending.close()
	s.logEnd(memory.FromUpstream, s.pumpReplies())
}

// pumpRequests carries requests until the client ends or an error occurs.
func (s *session) pumpRequests() {
	defer s.fromClient.Free()
	for {
		s.BeforeRequest()
		m, err := s.fromClient.next()
		if err == nil {
			s.NoteRequest()
			err = s.handleRequest(m)
			s.req.release()
		}
		if err != nil && !s.ContinueAfterRead(err, s.idle()) {
			s.logEnd(memory.FromClient, err)
			return
		}
	}
}

// handleRequest carries one message from the client to the server.
func (s *session) handleRequest(m message) (err error) {
	began, r := time.Now(), &s.req
	var c *trace.Command // nil: not traced
	if s.tracing.tracer != nil {
		c = s.tracing.begin(began, m.waited)
	}
	if c != nil {
		defer func() {
			if err != nil || !r.hasReply {
				traceNoReply(c, err)
			}
		}()
	}

	// Decompress and parse the request.
	r.received, r.plain, r.header, r.compressor = m.received, m.received, m.header, m.compressor
	if m.compressor != plain {
		if r.plain, err = s.decompress(&m); err != nil {
			return err
		}
		defer memory.PutBuffer(r.plain)
	}
	if err := r.parse(); err != nil {
		return err
	}
	var rewriteBegan time.Time // only used for a trace
	if c != nil {
		rewriteBegan = traceParsed(c, r, began, m.decompressTime)
	}
	if r.traits&(startsLogin|isHello) != 0 {
		mechanism, err := s.g.logins.refusedMechanism(r)
		if err != nil {
			return err
		}
		if mechanism != "" {
			return s.refuseLogin(mechanism, c)
		}
	}
	switch {
	case r.traits&isHello != 0:
		return s.sendHello(m.account, c)
	case r.traits&isGatewayQuery != 0 && r.hasReply:
		return s.answerGatewayQuery(c)
	}

	// Choose the form in which the request goes to the server, and its reply to the client.
	x := exchange{
		id: r.header.RequestID, replyCompressor: r.compressor, shape: r.shape, awaitsData: r.awaitsData,
		endsLogin: r.traits&endsLogin != 0, retryable: r.traits&retriedRead != 0 && !r.writes,
		trace: c,
	}
	if r.traits&neverCompressed != 0 {
		x.replyCompressor, x.shape = plain, 0
	}
	out, pooled, covered := s.rewrite(r, &x)
	defer memory.PutBuffer(pooled)
	x.sent = time.Now()
	x.spent = x.sent.Sub(began)
	if r.hasReply && !s.pending.push(&x, m.account) {
		return net.ErrClosed
	}
	if c != nil {
		compressing := time.Duration(0)
		if pooled != nil {
			compressing = x.sent.Sub(rewriteBegan)
		}
		s.tracing.sent(c, out, covered && s.toServer.stream != nil, rewriteBegan, compressing)
	}
	if s.nsCommands.sample {
		s.nsCommands.measure(x.nsCommand, policy.Request, r.plain, began)
	}
	return s.toServer.write(out, m.account, covered)
}

// refuseLogin sends the client an error for a login by a mechanism that may not pass.
func (s *session) refuseLogin(mechanism string, c *trace.Command) error {
	c.End("login_refused")
	s.g.logins.recordRefused(s.Client, mechanism)
	if !s.req.hasReply {
		return nil
	}
	return s.toClient.send(s.g.logins.refusalReply(s.req.header, mechanism), nil)
}

// answerGatewayQuery replies to Cinch's commands that this is a gateway. If the server requires a login, only
// clients that have logged in are told the server's address.
func (s *session) answerGatewayQuery(c *trace.Command) error {
	c.End("")
	url := s.g.cfg.UpstreamURL
	if s.authGate.MustAuthenticate(s.Context()) {
		url = ""
	}
	return s.toClient.send(replyTo(s.req.header, gatewayReply(s.g.cfg.Name, url)), nil)
}

// sendHello sends a client's hello upstream.
func (s *session) sendHello(account *memory.Account, c *trace.Command) error {
	out, h, err := s.helloForServer(&s.req)
	if err != nil {
		return err
	}
	defer memory.PutBuffer(out)
	if s.req.hasReply && !s.pending.push(&exchange{id: s.req.header.RequestID, replyCompressor: plain, hello: h, trace: c}, account) {
		return net.ErrClosed
	}
	if c != nil {
		s.tracing.sent(c, out, false, time.Time{}, 0)
	}
	return s.toServer.send(out, account)
}

// logEnd counts and logs why the session ended, if not in the usual way.
func (s *session) logEnd(who memory.Peer, err error) {
	if errors.Is(err, errNotPrimary) {
		s.stats.Error("not_primary")
		return
	}
	s.LogEnd(who, errorClasses.Of(err), err)
}

// Authenticated implements gateway.Authenticator.
func (s *session) Authenticated() bool { return s.authGate.IsOpen() }

// sender sends messages to a peer, one at a time.
type sender struct {
	conn   io.Writer
	stream historyExcluder // the connection as a stream of a link; nil: it is not one
	peer   memory.Peer

	// mu is needed for the client, which gets errors from the request pump and replies from the reply pump.
	// Only the request pump sends to the server.
	mu sync.Mutex
}

// send writes a message that no rule covers. account holds the message's memory; it may be nil. While other sessions
// wait for that memory, the peer is checked for stalls.
func (s *sender) send(b []byte, account *memory.Account) error { return s.write(b, account, false) }

// write is like send. covered tells whether a rule covers the message: a link compresses only such messages with its
// history.
func (s *sender) write(b []byte, account *memory.Account, covered bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream != nil {
		s.stream.KeepOut(!covered)
	}
	if account != nil {
		return account.Send(s.conn, s.peer, b)
	}
	_, err := s.conn.Write(b)
	return err
}
