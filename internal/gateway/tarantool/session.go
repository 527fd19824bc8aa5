package tarantool

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/trace"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// session carries one client's requests to its upstream connection, and the replies back. Each direction has a pump.
// Requests that have to be sent again, or in steps, must wait for the schema or for replies, so a goroutine of their
// queue sends them (retry.go).
type session struct {
	*gateway.PumpedSession
	g *Gateway

	identity           identity
	toServer, toClient sink
	outstanding        *outstanding
	submitMu           sync.Mutex     // held while a request is pushed to outstanding and written
	background         sync.WaitGroup // counts the goroutines of queues
	shutdownWatch      shutdownWatch
	tracing            tracing
	serverVersion      atomic.Pointer[schema.Version] // the server's, from its greeting; nil: not received yet
	isReplication      atomic.Bool                    // the connection carries replication from here on

	// Used by the request pump only.
	fromClient   reader
	req          request             // the current request
	transactions map[uint64]struct{} // streams with an open transaction

	// Used by the reply pump only.
	fromServer    reader
	reply         reply  // the current reply
	schemaVersion uint64 // version in the last reply
	decodedBytes  int64  // bytes taken from the reply budget for a decompressed reply
}

func newSession(g *Gateway, client, upstream net.Conn) *session {
	s := &session{g: g}
	s.PumpedSession = gateway.NewPumpedSession(gateway.PumpedSessionConfig{
		Client: client, Upstream: upstream, Requests: g.requests, Replies: g.replies,
		Stall: g.cfg.Stall, Grace: g.cfg.Grace, Stats: g.cfg.Stats, Log: g.cfg.Log,
	})
	s.tracing.tracer, s.tracing.gateway, s.tracing.server = g.cfg.Tracer, g.cfg.Name, g.cfg.Upstream.Address
	s.identity.door.Probe = &g.keeper
	s.toServer = sink{conn: gateway.NewDirectWriter(upstream), peer: memory.FromUpstream, account: s.Requests}
	s.toClient = sink{conn: gateway.NewDirectWriter(client), peer: memory.FromClient, account: s.Replies}
	s.outstanding = newOutstanding(s.Requests, s.Replies, s.toServer.flush, s.probe)
	s.fromClient = reader{Inbound: gateway.Inbound{Conn: client, Peer: memory.FromClient, Ctx: s.Context(), Account: s.Requests, AuthGate: &s.identity.door, Idle: s.toServer.flush}, rewrites: true}
	s.fromServer = reader{Inbound: gateway.Inbound{Conn: upstream, Peer: memory.FromUpstream, Ctx: s.Context(), Account: s.Replies, Idle: s.toClient.flush}}
	return s
}

// Run carries requests and replies until both directions have ended.
func (s *session) Run() {
	defer s.tracing.conn.End()
	s.PumpedSession.Run(s.carryRequests, s.carryReplies)
}

// carryRequests carries requests until the client ends, and passes its EOF on at once: the server then handles the
// connection as if the client were connected directly.
func (s *session) carryRequests() {
	s.pumpRequests()
	s.End()
	_ = s.toServer.flush()
	s.CloseUpstreamWrite()
	<-s.RepliesDone()
	_ = gateway.Abort(s.Upstream) // unblocks background goroutines that write to a server that reads no more
	s.background.Wait()
}

// carryReplies carries replies until the server ends or an error occurs.
func (s *session) carryReplies() {
	defer s.outstanding.close()
	err := s.pumpReplies()
	s.LogEnd(memory.FromUpstream, errorClasses.Of(err), err)
	if !s.Ended() {
		s.g.catalog.markLost() // the server may have been restarted
	}
}

// pumpRequests carries requests until the client ends or an error occurs.
func (s *session) pumpRequests() {
	defer s.fromClient.Free()
	for {
		s.announceShutdown()
		s.BeforeRequest()
		f, err := s.fromClient.next()
		if err == nil {
			s.NoteRequest()
			err = s.handleRequest(&f)
		}
		if err != nil && !s.ContinueAfterRead(err, s.idle()) {
			s.LogEnd(memory.FromClient, errorClasses.Of(err), err)
			return
		}
	}
}

// handleRequest carries one frame from the client to the server, or answers it.
func (s *session) handleRequest(f *frame) error {
	// Classify the request.
	began, r := time.Now(), &s.req
	r.bytes = f.body()
	if err := r.header.Parse(r.bytes); err != nil {
		return s.toServer.write(f.bytes) // not pushed, since it is unknown how the server replies
	}
	h := handlingOf(r.header.Type)
	r.trace = s.tracing.begin(r.header.Type, h, began, s.fromClient.Waited)
	e := exchange{kind: r.header.Type, stream: r.header.Stream, trace: r.trace}
	switch h {
	case noReply:
		s.shutdownWatch.record(r)
		return s.toServer.write(f.bytes)
	case replication:
		return s.replicate(f)
	case protocolFeatures:
		return s.sendFeatures(f, e)
	case ping:
		if bytes.Equal(r.bytes[r.header.Map.End():], wire.GatewayQuestion) {
			return s.answerGateway()
		}
		return s.submit(r.header.Sync, e, f.bytes)
	case passThrough:
		return s.submit(r.header.Sync, e, f.bytes)
	case transactions:
		s.trackTransaction(&r.header)
	case sql, tuples, updates, upserts, calls:
		if err := r.body.Parse(r.bytes, r.header.Map.End()); err != nil {
			return s.refuse(malformed)
		}
		traceSince(r.trace, "parse", began)
	}

	// Wait for a place in its queue. A login must be alone there, since steps and requests that are sent again belong
	// to the old user. So must a request with a stamp of the client.
	stamp, ok := s.outstanding.reserve(r.header.Stream, r.header.Schema != 0 || h == auth, r.trace)
	if !ok {
		return net.ErrClosed
	}
	if h == auth {
		s.identity.recordLogin(r.header.Sync, r.user())
	}
	r.login = s.identity.login()

	// Rewrite it.
	deciding := r.trace.Now()
	w, refused := s.g.rewrite(s.Context(), r, h, stamp)
	if cap(r.edits) > maxIdleEdits {
		r.edits = nil
	}
	switch {
	case refused != nil:
		return s.refuse(refused)
	case w.steps.space != nil:
		return s.sendInSteps(f, e)
	case w.bytes == nil:
		e.spent = time.Since(began)
		return s.submit(r.header.Sync, e, f.bytes)
	}
	defer memory.PutBuffer(w.bytes)
	if w.sealed {
		traceSince(r.trace, "codec request", deciding)
	}
	if w.stamp != 0 && !s.outstanding.retryBuffer.keep(&e, f, 0) {
		return s.sendUnstamped(f, e, &w)
	}
	e.stamp, e.tupleHash, e.spent = w.stamp, w.tupleHash, time.Since(began)
	return s.submit(r.header.Sync, e, w.bytes)
}

// submit adds an exchange and writes its request, which the next flush sends at the latest. Requests are written in the
// order in which their exchanges are added: finding the exchange of a reply relies on that.
func (s *session) submit(sync uint64, e exchange, frame []byte) error {
	s.submitMu.Lock()
	defer s.submitMu.Unlock()
	if !s.outstanding.push(sync, e) {
		return net.ErrClosed
	}
	return s.toServer.write(frame)
}

// sendUnstamped sends the current request unchanged and without a stamp, when there is no memory for the copy that
// would be needed to send it again. It refuses a request that could cut an envelope if the schema has changed, and one
// with a value that would be mistaken for an envelope.
func (s *session) sendUnstamped(f *frame, e exchange, w *rewritten) error {
	if w.needsStamp || w.sealed {
		s.g.cfg.Stats.Error("budget")
	}
	if w.needsStamp || w.sealed && hasMagic(s.req.bytes) {
		return s.refuse(noMemory)
	}
	if _, ok := s.outstanding.reserve(e.stream, true, e.trace); !ok {
		return net.ErrClosed
	}
	return s.submit(s.req.header.Sync, e, f.bytes)
}

// sendFeatures forwards the client's protocol features, without those that the gateway does not understand.
func (s *session) sendFeatures(f *frame, e exchange) error {
	r := &s.req
	if err := r.body.Parse(r.bytes, r.header.Map.End()); err != nil {
		return s.refuse(malformed)
	}
	out := withoutFeatures(r.bytes, &r.body)
	if out == nil {
		return s.submit(r.header.Sync, e, f.bytes)
	}
	defer memory.PutBuffer(out)
	return s.submit(r.header.Sync, e, out)
}

// answerGateway tells Cinch's commands, which must connect to the server itself, that this is a gateway. If the server
// requires a login, only clients that have logged in get the URL of the server.
func (s *session) answerGateway() error {
	url := s.g.cfg.UpstreamURL
	if s.identity.door.MustAuthenticate(s.Context()) {
		url = ""
	}
	s.req.trace.End("")
	return s.toClient.send(wire.AppendGateway(nil, s.req.header.Sync, s.g.catalog.seenVersion.Load(), s.g.cfg.Name, url))
}

// refuse answers the current request with an error and gives up its place in its queue.
func (s *session) refuse(refused *refusal) error {
	s.outstanding.cancelReservation()
	return s.sendRefusal(s.req.header.Sync, s.req.trace, refused)
}

// sendRefusal answers a request with an error, instead of sending it to the server.
func (s *session) sendRefusal(sync uint64, c *trace.Command, refused *refusal) error {
	traceRefused(c, refused)
	s.g.cfg.Stats.Guarded(refused.reason, "refused")
	return s.toClient.send(wire.AppendError(nil, sync, s.g.catalog.seenVersion.Load(), refused.code, refused.text))
}

// Authenticated implements gateway.Authenticator.
func (s *session) Authenticated() bool { return s.identity.door.IsOpen() }
