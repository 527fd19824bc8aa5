package mongo

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// session is one client and its upstream connection. Each pump owns its own section; what
// both use is atomic or locked.
type session struct {
	*gateway.Life
	g        *Gateway
	client   net.Conn
	upstream net.Conn
	member   int // of the balancer's, that upstream leads to
	pending  pending
	stale    atomic.Bool // upstream leads to a primary that is one no more

	taken atomic.Uint32 // the compressorSet that the server took from our offer
	door  gateway.Door  // that the client passes by logging in

	// request pump
	in      reader
	req     request
	greeted bool                // a handshake was sent
	shown   []wire.CompressorID // what the client may see in the replies to handshakes

	// reply pump
	out   reader
	reply wire.Msg
	reads bool // the server has let the client read some collection

	telling sync.Mutex // one message to the client at a time: refusals come from the request pump

	// For gateways on either side. The first and the last belong to the request pump.
	fromClient hearer
	toClient   speaker
	fromServer hearer
	toServer   speaker
}

var (
	errReplyFromClient = fmt.Errorf("%w: a reply from the client", wire.ErrMalformed)
	errNoReply         = fmt.Errorf("%w: no reply, but opcode", wire.ErrMalformed)
	errNoCommand       = fmt.Errorf("%w: no command in it", wire.ErrMalformed)
)

func newSession(g *Gateway, client, upstream net.Conn, member int) *session {
	s := &session{g: g, client: client, upstream: upstream, member: member}
	s.Life = gateway.NewLife(gateway.LifeConfig{
		Client: client, Upstream: upstream, Requests: g.requests, Replies: g.replies,
		Stall: g.cfg.Stall, Stats: g.cfg.Stats, Log: g.cfg.Log,
	})
	s.pending.init()
	s.fromClient.g, s.toClient.g, s.fromServer.g, s.toServer.g = g, g, g, g
	s.door.Keeper = &g.keeper
	s.in = reader{Inbound: gateway.Inbound{Conn: client, Peer: gateway.FromClient, Ctx: s.Context(), Account: s.Requests, Door: &s.door}, pair: &s.fromClient}
	s.out = reader{Inbound: gateway.Inbound{Conn: upstream, Peer: gateway.FromUpstream, Ctx: s.Context(), Account: s.Replies}, pair: &s.fromServer, pace: gateway.PaceOf(upstream)}
	return s
}

// Run pumps until both sides are done.
func (s *session) Run() {
	defer s.freePairs()
	defer s.g.followers.remove(s)
	s.Life.Run(s.carryRequests, s.carryReplies)
}

// carryRequests ends the session when the client ends and waits for nothing; otherwise its replies
// are let through.
func (s *session) carryRequests() {
	s.pumpRequests()
	if s.pending.busy() {
		s.PassEnd()
		return
	}
	_ = s.Close()
}

func (s *session) carryReplies() {
	defer s.pending.close()
	s.pumpReplies()
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
		if err != nil && !s.GoesOn(err, !s.pending.busy()) {
			s.logEnd(gateway.FromClient, err)
			return
		}
	}
}

// handleRequest sends one message of the client's upstream.
func (s *session) handleRequest(m message) error {
	if m.paired.Dictionary {
		return s.fromClient.take(m.bytes, &m.paired)
	}
	began := time.Now()
	r := &s.req
	whole, pooled, err := s.open(&s.fromClient, &m)
	if err != nil {
		return err
	}
	defer gateway.PutBuffer(pooled)
	r.wire, r.message, r.header, r.came = m.bytes, whole, m.header, m.came
	if err := r.parse(); err != nil {
		return err
	}
	if pass, err := s.checkLogin(); !pass {
		return err
	}
	if r.traits&isHello != 0 {
		return s.sendHello(m.held)
	}
	d := s.decide(r)
	defer d.free()
	if r.answered {
		e := exchange{id: r.header.RequestID, client: r.came, shape: r.shape, topic: r.topic, reads: r.reads, logsIn: r.traits&endsLogin != 0, retried: r.traits&retriedRead != 0 && !r.writes, rule: d.reply, reason: d.reason, sent: began}
		if r.traits&neverCompressed != 0 {
			e.client, e.shape = plain, 0
		}
		if r.came == wire.BetweenGateways && !m.paired.Wants {
			e.client = plain
		}
		e.spent = time.Since(began)
		if !s.push(e, m.held) {
			return net.ErrClosed
		}
	}
	s.measure(r.topic, policy.Request, r.message, m.bytes, d.bytes, began)
	return send(s.in.Account, s.upstream, gateway.FromUpstream, d.bytes, m.held)
}

// tellClient sends the client a message.
func (s *session) tellClient(b []byte, held bool) error {
	s.telling.Lock()
	defer s.telling.Unlock()
	return send(s.out.Account, s.client, gateway.FromClient, b, held)
}

// send writes a message to a peer, which is judged when the message holds memory that others want.
func send(a *gateway.Account, c net.Conn, to gateway.Peer, b []byte, held bool) error {
	if held {
		return a.Send(c, to, b)
	}
	_, err := c.Write(b)
	return err
}

// push queues an exchange. A client that takes no replies waits here, but not with memory
// that others want.
func (s *session) push(e exchange, held bool) bool {
	return s.pending.push(e, func() {
		if held {
			s.in.Account.Await(gateway.FromClient)
		}
	}, func() { s.in.Account.Awaited(gateway.FromClient) })
}

// logEnd says once why a conversation was broken off, if not in the usual way.
func (s *session) logEnd(who gateway.Peer, err error) {
	if errors.Is(err, errNotPrimary) {
		s.g.cfg.Stats.Error("not_primary")
		return
	}
	s.LogEnd(who, errorClass(err), err)
}

// errorClass names a violation of the protocol; an ordinary end has none.
func errorClass(err error) string {
	switch {
	case errors.Is(err, gateway.ErrStranger):
		return "stranger"
	case errors.Is(err, wire.ErrNested):
		return "nested"
	case errors.Is(err, wire.ErrTooLarge):
		return "too_large"
	case errors.Is(err, wire.ErrOpCode):
		return "opcode"
	case errors.Is(err, wire.ErrChecksum):
		return "checksum"
	case errors.Is(err, wire.ErrMalformed):
		return "malformed"
	case errors.Is(err, codec.ErrCorrupt):
		return "corrupt"
	case errors.Is(err, errCompressor):
		return "compressor"
	case errors.Is(err, errPair):
		return "pair"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "truncated"
	}
	return ""
}
