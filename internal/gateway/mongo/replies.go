package mongo

import (
	"fmt"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// pumpReplies carries replies until the server ends or an error.
func (s *session) pumpReplies() {
	defer s.out.Free()
	for {
		m, err := s.out.next()
		if err == nil {
			err = s.handleReply(m)
		}
		if err != nil {
			s.logEnd(gateway.FromUpstream, err)
			return
		}
	}
}

// handleReply sends one message of the server's to the client.
func (s *session) handleReply(m message) error {
	if m.paired.Dictionary {
		return s.fromServer.take(m.bytes, &m.paired)
	}
	began := time.Now()
	body, opened, err := s.open(&s.fromServer, &m)
	if err != nil {
		return err
	}
	defer gateway.PutBuffer(opened)
	more := false
	switch m.header.OpCode {
	case wire.OpMsg:
		if err := s.reply.Parse(body); err != nil {
			return err
		}
		more = s.reply.Flags&wire.MoreToCome != 0
	case wire.OpReply:
	default:
		return fmt.Errorf("%w %d", errNoReply, m.header.OpCode)
	}
	e, ok := s.pending.take(m.header.ResponseTo, more, m.header.RequestID)
	if ok && e.hello != nil {
		return s.answerHello(e.hello, m, body)
	}
	if e.logsIn {
		s.passDoor(m.header.OpCode, body)
	}
	lost, deliver := s.checkReply(&e, s.documentOf(m.header.OpCode, body))
	if !deliver {
		return errNotPrimary
	}
	s.learn(&e, m, len(body), began)
	if !ok {
		e.client = plain
	}
	out, pooled := s.asAsked(&e, m, body, began)
	defer gateway.PutBuffer(pooled)
	s.measure(e.topic, policy.Reply, body, out, m.bytes, began)
	if ok {
		s.g.cfg.Stats.Latency(e.spent + time.Since(began))
	}
	err = s.tellClient(out, m.held)
	if err == nil && (lost || s.stale.Load() && !s.pending.busy()) {
		err = errNotPrimary
	}
	return err
}

// documentOf is that of a reply, which has been parsed if it is an OP_MSG; nil: it has none.
func (s *session) documentOf(op wire.OpCode, body []byte) []byte {
	at := s.reply.Body
	if op == wire.OpReply {
		at, _ = wire.ParseReply(body)
	}
	return at.Of(body)
}

// learn takes notice of what a reply was like, and counts it under the rule that covers it.
func (s *session) learn(e *exchange, m message, raw int, now time.Time) {
	s.g.link.received(s.out.rest, len(m.bytes), s.out.took)
	if !e.sent.IsZero() {
		s.g.link.answered(now.Sub(e.sent) - s.out.took)
	}
	if e.shape != 0 {
		s.g.shapes.learn(e.shape, raw, len(m.bytes), m.came)
	}
	switch {
	case e.rule == nil:
	case m.paired.Stored:
		s.g.cfg.Stats.Left(e.rule.Name, "peer", raw)
	case m.came != plain:
		s.g.cfg.Stats.Sealed(e.rule.Name, codecOf(m.came), raw, len(m.bytes), 0)
	case e.reason != "":
		s.g.cfg.Stats.Left(e.rule.Name, e.reason, raw)
	default:
		s.g.cfg.Stats.Left(e.rule.Name, "server", raw)
	}
}

// asAsked gives a reply the form of its request: compressed by what that came in, where the
// reply gets smaller, and plain otherwise. What came in that form already passes as it is.
func (s *session) asAsked(e *exchange, m message, body []byte, began time.Time) (out, pooled []byte) {
	if e.client == wire.BetweenGateways {
		return s.replyPaired(e, m.header, body, began)
	}
	_, known := algorithmOf(e.client)
	if !known || e.client == wire.Noop || len(body) < minCompressed {
		return body, nil
	}
	if e.client == m.came {
		if len(m.bytes) < len(body) {
			return m.bytes, nil
		}
		return body, nil
	}
	compressed := s.g.compress(body, m.header, e.client, 0)
	if compressed == nil || len(compressed) >= len(body) {
		return body, compressed
	}
	return compressed, compressed
}
